// Manual pages: the macros of man(7). Those of mdoc(7) are in read_mdoc.cc.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "retrieval/block_builder.h"
#include "retrieval/manual_page.h"
#include "retrieval/readers.h"
#include "retrieval/roff.h"

namespace chimere::retrieval {
namespace {

template <size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string joined(const std::vector<RoffWord>& words, std::string_view between, size_t from = 0) {
  std::string out;
  for (size_t i = from; i < words.size(); ++i) {
    if (i > from) out += between;
    out += words[i].text;
  }
  return out;
}

class ManReader {
 public:
  explicit ManReader(std::string_view source) : roff_(source), builder_(document_) {}

  Document read() {
    while (roff_.next()) line(roff_.line());
    end_table();
    builder_.end();
    document_.title = manual_title(document_, name_, section_);
    return std::move(document_);
  }

 private:
  void line(const RoffLine& line) {
    if (in_table_) {
      table(line);
    } else if (line.name.empty()) {
      text(line.text, line.number);
    } else {
      macro(line);
    }
  }

  void text(std::string_view text, int64_t number) {
    if (next_is_heading_) {
      next_is_heading_ = false;
      builder_.heading(heading_level_, trimmed(text), number);
      return;
    }
    if (trimmed(text).empty()) {
      if (verbatim_) {
        builder_.add(Block::Kind::kCode, "", number);
      } else {
        builder_.end();
      }
      return;
    }
    if (verbatim_) {
      builder_.add(Block::Kind::kCode, text, number);
      return;
    }
    builder_.add(Block::Kind::kText, trimmed(text), number);
  }

  void macro(const RoffLine& line) {
    static constexpr std::array<std::string_view, 9> kParagraphs = {"PP", "P",  "LP", "HP", "Pp",
                                                                    "Sp", "sp", "RS", "RE"};
    static constexpr std::array<std::string_view, 6> kFonts = {"BR", "RB", "BI", "IB", "IR", "RI"};
    static constexpr std::array<std::string_view, 4> kOneFont = {"B", "I", "SM", "SB"};
    const std::string& name = line.name;
    const int64_t number = line.number;
    if (name == "SH" || name == "SS") {
      builder_.end();
      verbatim_ = false;
      heading_level_ = name == "SH" ? 1 : 2;
      const std::string heading = joined(line.words, " ");
      next_is_heading_ = trimmed(heading).empty();
      if (!next_is_heading_) builder_.heading(heading_level_, trimmed(heading), number);
    } else if (name == "TH") {
      if (!line.words.empty()) name_ = line.words[0].text;
      if (line.words.size() > 1) section_ = line.words[1].text;
    } else if (among(kParagraphs, name)) {
      if (!verbatim_) builder_.end();
      if (verbatim_ && name == "sp") builder_.add(Block::Kind::kCode, "", number);
    } else if (name == "TP" || name == "TQ") {
      if (name == "TP") builder_.end();
      verbatim_ = false;
    } else if (name == "IP") {
      builder_.end();
      verbatim_ = false;
      if (!line.words.empty()) text(line.words[0].text, number);
    } else if (among(kFonts, name)) {
      text(joined(line.words, ""), number);
    } else if (among(kOneFont, name)) {
      text(joined(line.words, " "), number);
    } else if (name == "nf" || name == "EX" || name == "Vb") {
      builder_.end();
      verbatim_ = true;
    } else if (name == "fi" || name == "EE" || name == "Ve") {
      builder_.end();
      verbatim_ = false;
    } else if (name == "TS") {
      builder_.end();
      in_table_ = in_format_ = true;
    } else {
      other(line);
    }
  }

  void other(const RoffLine& line) {
    static constexpr std::array<std::string_view, 5> kArguments = {"OP", "SY", "UR", "MT", "MR"};
    const std::string& name = line.name;
    if (name == "OP") {
      text("[" + joined(line.words, " ") + "]", line.number);
    } else if (name == "MR" && line.words.size() >= 2) {
      text(line.words[0].text + "(" + line.words[1].text + ")" + joined(line.words, "", 2),
           line.number);
    } else if (among(kArguments, name) || (roff_.defines(name) && name != "IX")) {
      text(joined(line.words, " "), line.number);
    }
    // IX is pod2man's entry of an index. Everything else sets margins, fonts or other things that
    // plain text does not have.
  }

  /// tbl(1): the format ends with a full stop, cells are separated by tabs.
  void table(const RoffLine& line) {
    if (line.name == "TE") {
      end_table();
      return;
    }
    if (line.name == "T&") in_format_ = true;
    if (!line.name.empty()) return;
    const std::string_view text = trimmed(line.text);
    if (in_format_) {
      if (text.ends_with('.')) in_format_ = false;
      return;
    }
    if (text == "_" || text == "=" || text == "T}" || text.empty()) return;
    std::string row;
    for (const char c : text) {
      if (c == '\t') {
        row += "  ";
      } else {
        row += c;
      }
    }
    if (row.ends_with("T{")) row.resize(row.size() - 2);
    if (row.starts_with("T}")) row.erase(0, 2);
    if (!trimmed(row).empty()) builder_.add(Block::Kind::kCode, trimmed(row), line.number);
  }

  void end_table() {
    if (in_table_) builder_.end();
    in_table_ = in_format_ = false;
  }

  Document document_;
  RoffReader roff_;
  BlockBuilder builder_;
  std::string name_;
  std::string section_;
  bool verbatim_ = false;
  bool next_is_heading_ = false;
  int heading_level_ = 1;
  bool in_table_ = false;
  bool in_format_ = false;
};

}  // namespace

std::string manual_title(const Document& document, std::string_view name,
                         std::string_view section) {
  constexpr size_t kMost = 200;
  std::string title(name);
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::tolower(c); });
  for (size_t i = 0; i + 1 < document.blocks.size(); ++i) {
    const Block& heading = document.blocks[i];
    if (heading.kind != Block::Kind::kHeading) continue;
    std::string upper = heading.text;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    if (upper != "NAME") continue;
    std::string purpose = document.blocks[i + 1].text;
    std::ranges::replace(purpose, '\n', ' ');
    const size_t dash = std::min(purpose.find(" - "), purpose.find(" – "));
    if (dash == std::string::npos) break;
    const std::string names(trimmed(purpose.substr(0, dash)));
    // The name as the page writes it; TH often has it in capitals.
    std::string first = names.substr(0, names.find(','));
    title =
        first + (section.empty() ? "" : "(" + std::string(section) + ")") + purpose.substr(dash);
    if (names.size() > first.size()) title += " (" + names + ")";
    if (title.size() > kMost) {
      size_t end = kMost;
      while (end > 0 && (static_cast<unsigned char>(title[end]) & 0xc0U) == 0x80) --end;
      title.resize(end);
    }
    return title;
  }
  return section.empty() ? title : title + "(" + std::string(section) + ")";
}

Document read_manual(std::string_view source) {
  // mdoc(7) requires Dd before everything but comments; man(7) TH.
  const size_t dd = source.starts_with(".Dd") ? 0 : source.find("\n.Dd");
  const size_t th = source.starts_with(".TH") ? 0 : source.find("\n.TH");
  if (dd != std::string_view::npos && (th == std::string_view::npos || dd < th))
    return read_mdoc(source);
  return ManReader(source).read();
}

}  // namespace chimere::retrieval
