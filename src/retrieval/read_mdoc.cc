#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "retrieval/block_builder.h"
#include "retrieval/manual_page.h"
#include "retrieval/roff.h"

namespace chimere::retrieval {
namespace {

/// An enclosure to the end of the line (Op), or from one macro (Oo) to another (Oc).
struct Enclosure {
  std::string_view line;
  std::string_view open;
  std::string_view close;
  std::string_view before;
  std::string_view after;
};
constexpr Enclosure kEnclosures[] = {
    {"Op", "Oo", "Oc", "[", "]"},    {"Dq", "Do", "Dc", "\"", "\""}, {"Sq", "So", "Sc", "'", "'"},
    {"Qq", "Qo", "Qc", "\"", "\""},  {"Pq", "Po", "Pc", "(", ")"},   {"Bq", "Bo", "Bc", "[", "]"},
    {"Brq", "Bro", "Brc", "{", "}"}, {"Aq", "Ao", "Ac", "<", ">"},   {"Ql", "", "", "'", "'"},
};

/// Macros that print their arguments as they are.
constexpr std::string_view kPlain[] = {"Ar", "Cm", "Ic", "Pa", "Ev", "Va", "Vt", "Fa", "Ft", "Fd",
                                       "Em", "Sy", "Li", "No", "Tn", "Dv", "Er", "Ad", "An", "Ms",
                                       "Mt", "Lk", "Sx", "St", "Cd", "Nd", "%A", "%T", "%J", "%B",
                                       "%D", "%R", "%I", "%O", "%U", "%N", "%P", "%V", "%C"};

struct SystemName {
  std::string_view macro;
  std::string_view text;
};
constexpr SystemName kSystems[] = {{"Ux", "UNIX"},     {"Bx", "BSD"},    {"At", "AT&T UNIX"},
                                   {"Fx", "FreeBSD"},  {"Nx", "NetBSD"}, {"Ox", "OpenBSD"},
                                   {"Dx", "DragonFly"}};

bool is_plain(std::string_view name) { return std::ranges::find(kPlain, name) != std::end(kPlain); }

bool closes(std::string_view word) {
  return word.size() == 1 && std::string_view(".,:;)]?!").find(word[0]) != std::string_view::npos;
}
bool opens(std::string_view word) { return word == "(" || word == "["; }

/// Puts the words of a line together.
class MdocLine {
 public:
  explicit MdocLine(std::string& page_name) : page_name_(page_name) {}

  /// The text of a macro with its arguments; empty: it prints nothing.
  std::string text(const RoffLine& line) {
    call(line.name, line.words, 0);
    while (!closers_.empty()) pop();
    return std::move(out_);
  }

 private:
  void put(std::string_view word, bool attached = false) {
    if (word.empty()) return;
    if (!out_.empty() && !no_space_ && !attached) out_ += ' ';
    out_ += word;
    no_space_ = false;
  }
  void pop() {
    put(closers_.back(), true);
    closers_.pop_back();
  }

  static bool callable(const RoffWord& word) {
    if (word.quoted || word.text.size() < 2 || word.text.size() > 3) return false;
    static constexpr std::string_view kOthers[] = {"Fl", "Nm", "Xr", "Ns", "Ap",
                                                   "Pf", "Fn", "Op", "Ux", "In"};
    return is_plain(word.text) || std::ranges::find(kOthers, word.text) != std::end(kOthers) ||
           std::ranges::find(kSystems, word.text, &SystemName::macro) != std::end(kSystems) ||
           std::ranges::any_of(kEnclosures, [&](const Enclosure& e) {
             return word.text == e.line || word.text == e.open || word.text == e.close;
           });
  }

  /// Carries out the macro `name` with the words from `at` on, and those that it calls.
  void call(std::string_view name, const std::vector<RoffWord>& words, size_t at) {
    while (true) {
      at = one(name, words, at);
      if (at >= words.size()) return;
      name = words[at].text;
      ++at;
    }
  }

  /// One macro; returns where the next one's name is, or the number of words.
  size_t one(std::string_view name, const std::vector<RoffWord>& words, size_t at) {
    for (const Enclosure& e : kEnclosures) {
      if (name == e.line) {
        open(e);
        return rest("", words, at);
      }
      if (!e.open.empty() && name == e.open) {
        put(e.before);
        no_space_ = true;
        return rest("", words, at);
      }
      if (!e.close.empty() && name == e.close) {
        put(e.after, true);
        return rest("", words, at);
      }
    }
    if (name == "Fl") {
      const bool macro_follows = at < words.size() && callable(words[at]);
      if (at >= words.size() || macro_follows || closes(words[at].text)) put("-");
      no_space_ = no_space_ || macro_follows;
      return rest("-", words, at);
    }
    if (name == "Nm") {
      const bool own = at >= words.size() || callable(words[at]) || closes(words[at].text);
      if (own) put(page_name_);
      if (!own && page_name_.empty()) page_name_ = words[at].text;
      return rest("", words, at);
    }
    if (name == "Xr") {
      if (at < words.size()) put(words[at++].text);
      if (at < words.size() && !callable(words[at]) && !closes(words[at].text))
        put("(" + words[at++].text + ")", true);
      return rest("", words, at);
    }
    if (name == "Ns") {
      no_space_ = true;
      return rest("", words, at);
    }
    if (name == "Ap") {
      put("'", true);
      no_space_ = true;
      return rest("", words, at);
    }
    if (name == "Pf") {
      if (at < words.size()) put(words[at++].text);
      no_space_ = true;
      return rest("", words, at);
    }
    if (name == "In") {
      if (at < words.size()) put("<" + words[at++].text + ">");
      return rest("", words, at);
    }
    if (name == "Fn") {
      if (at < words.size()) put(words[at++].text + "(");
      no_space_ = true;
      const size_t end = rest("", words, at, ",");
      put(")", true);
      return end;
    }
    for (const SystemName& system : kSystems)
      if (name == system.macro) put(system.text);
    return rest("", words, at);
  }

  void open(const Enclosure& e) {
    put(e.before);
    no_space_ = true;
    closers_.push_back(e.after);
  }

  /// Prints words up to the next macro. Punctuation at the end of the line stands behind what
  /// encloses the line.
  size_t rest(std::string_view prefix, const std::vector<RoffWord>& words, size_t at,
              std::string_view separator = "") {
    bool first = true;
    for (; at < words.size(); ++at) {
      const RoffWord& word = words[at];
      if (callable(word)) return at;
      if (closes(word.text) && !word.quoted) {
        if (at + 1 == words.size()) {
          while (!closers_.empty()) pop();
        }
        put(word.text, true);
      } else if (opens(word.text) && !word.quoted) {
        put(word.text);
        no_space_ = true;
      } else {
        if (!first && !separator.empty()) put(separator, true);
        put(std::string(prefix) + word.text);
        first = false;
      }
    }
    return at;
  }

  std::string& page_name_;
  std::string out_;
  std::vector<std::string_view> closers_;
  bool no_space_ = false;
};

class MdocReader {
 public:
  explicit MdocReader(std::string_view source) : roff_(source), builder_(document_) {}

  Document read() {
    while (roff_.next()) {
      const RoffLine& line = roff_.line();
      if (line.name.empty()) {
        text(line.text, line.number);
      } else {
        macro(line);
      }
    }
    builder_.end();
    document_.title = manual_title(document_, title_, section_);
    return std::move(document_);
  }

 private:
  void text(std::string_view text, int64_t number) {
    if (verbatim_) {
      builder_.add(Block::Kind::kCode, text, number);
    } else if (trimmed(text).empty()) {
      builder_.end();
    } else {
      builder_.add(Block::Kind::kText, trimmed(text), number);
    }
  }

  void heading(const RoffLine& line, int level) {
    std::string heading;
    for (const RoffWord& word : line.words) {
      if (!heading.empty()) heading += ' ';
      heading += word.text;
    }
    verbatim_ = false;
    builder_.heading(level, trimmed(heading), line.number);
  }

  void macro(const RoffLine& line) {
    const std::string& name = line.name;
    if (name == "Sh" || name == "Ss") {
      heading(line, name == "Sh" ? 1 : 2);
    } else if (name == "Dt") {
      if (!line.words.empty()) title_ = line.words[0].text;
      if (line.words.size() > 1) section_ = line.words[1].text;
    } else if (name == "Dd" || name == "Os" || name == "Bl" || name == "El" || name == "Rs" ||
               name == "Re" || name == "Bf" || name == "Ef" || name == "Bk" || name == "Ek" ||
               name == "Pp" || name == "Lp" || name == "sp" || name == "Sm") {
      builder_.end();
    } else if (name == "Bd" || name == "Ed") {
      builder_.end();
      verbatim_ = name == "Bd" && std::ranges::any_of(line.words, [](const RoffWord& w) {
                    return w.text == "-literal" || w.text == "-unfilled";
                  });
    } else if (name == "It") {
      builder_.end();
      inline_macro(line, true);
    } else if (name == "Nd") {
      builder_.add(Block::Kind::kText, "- " + line.text, line.number);
    } else if (name == "D1" || name == "Dl") {
      builder_.end();
      inline_macro(line, true);
      builder_.end();
    } else {
      inline_macro(line, false);
    }
  }

  /// `called`: the macro itself prints nothing, the macros in its arguments do.
  void inline_macro(const RoffLine& line, bool called) {
    RoffLine copy = line;
    if (called) {
      copy.name = "No";
    } else if (line.name == "Ex" || line.name == "Rv" || line.name == "br" || line.name == "in" ||
               line.name == "ft") {
      return;
    }
    const std::string printed = MdocLine(name_).text(copy);
    if (!printed.empty()) text(printed, line.number);
  }

  Document document_;
  RoffReader roff_;
  BlockBuilder builder_;
  std::string name_;  ///< of the first Nm
  std::string title_;
  std::string section_;
  bool verbatim_ = false;
};

}  // namespace

Document read_mdoc(std::string_view source) { return MdocReader(source).read(); }

}  // namespace chimere::retrieval
