#include "orchestrator/question_form.h"

#include <algorithm>

#include "orchestrator/question_form_tables.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// Longer questions tell a story; their words are not all of the fact.
constexpr size_t kMostWords = 32;
/// The question word comes soon, or after a comma.
constexpr size_t kMostLeadIn = 12;

constexpr auto kQuestionWords = std::to_array<std::string_view>(
    {"how", "what", "when", "where", "which", "who", "whom", "whose", "why"});

/// The last sentence that ends in a question mark, or all.
std::string_view asked_part(std::string_view question) {
  const size_t mark = question.rfind('?');
  if (mark == std::string_view::npos) return question;
  const std::string_view before = question.substr(0, mark);
  size_t begin = 0;
  for (size_t i = 0; i + 1 < before.size(); ++i) {
    const bool ends = before[i] == '.' || before[i] == '!' || before[i] == '?' || before[i] == '\n';
    if (ends && (before[i + 1] == ' ' || before[i] == '\n')) begin = i + 1;
  }
  return before.substr(begin);
}

const AskedNoun* asked_noun(std::string_view word) {
  const auto* const found = std::ranges::find(kAskedNouns, word, &AskedNoun::noun);
  return found == kAskedNouns.end() ? nullptr : found;
}

/// Reads a question word by word.
class Reader {
 public:
  explicit Reader(std::string_view part) : part_(part), views_(word_views(part)) {
    for (const std::string_view view : views_) words_.push_back(lower(view));
  }

  std::optional<QuestionForm> read() {
    if (words_.empty() || words_.size() > kMostWords || part_.find(" -") != part_.npos) return {};
    for (const std::string& word : words_) {
      if (word == "we" || word == "my" || in_table(kDocumentNouns, word)) return {};
    }
    const size_t at = question_word();
    if (at == words_.size()) return request();
    if (std::ranges::find(words_.begin() + static_cast<std::ptrdiff_t>(at), words_.end(), "i") !=
        words_.end()) {
      return {};
    }
    if (!read_from(at)) return {};
    // What precedes the question word belongs to the question, too: "On the island of Vell, who".
    for (size_t i = 0; i < at; ++i) {
      if (!in_table(kLeadIns, words_[i])) take(i);
    }
    return finished();
  }

 private:
  /// Its place; that of the end: there is none where one can be.
  size_t question_word() const {
    for (size_t i = 0; i < words_.size() && i <= kMostLeadIn; ++i) {
      if (in_table(kQuestionWords, words_[i])) {
        const auto lead = [&](size_t w) {
          return in_table(kLeadIns, words_[w]) || words_[w] == "i";
        };
        bool leads = true;
        for (size_t w = 0; w < i; ++w) leads = leads && lead(w);
        const auto begin = static_cast<size_t>(views_[i].data() - part_.data());
        const size_t before = part_.find_last_not_of(' ', begin == 0 ? 0 : begin - 1);
        const bool comma = begin > 0 && before != part_.npos && part_[before] == ',';
        return leads || comma ? i : words_.size();
      }
    }
    return words_.size();
  }

  /// "Name the mayor of Marlow."
  std::optional<QuestionForm> request() {
    size_t at = 0;
    while (at < words_.size() && in_table(kLeadIns, words_[at])) ++at;
    const bool asked =
        at > 0 && at < words_.size() && words_[at - 1] == "the" &&
        (words_[0] == "name" || words_[0] == "give" || words_[0] == "tell" || words_[0] == "state");
    const auto of = std::ranges::find(words_, "of");
    if (!asked || of == words_.end()) return {};
    head_noun(at);
    return finished();
  }

  bool read_from(size_t at) {
    const std::string& word = words_[at];
    const size_t next = at + 1;
    if (next >= words_.size()) return false;
    if (word == "how") return read_how(next);
    if (word == "what" || word == "which") return read_what(next, word == "which");
    form_.kind = word == "when"    ? AnswerKind::kTime
                 : word == "where" ? AnswerKind::kPlace
                 : word == "why"   ? AnswerKind::kReason
                                   : AnswerKind::kPerson;
    take_from(next);
    const bool names = std::ranges::all_of(form_.words, &AskedWord::name);
    // "Who is Anna Keller?" asks for an explanation.
    return word == "where" || !names;
  }

  bool read_how(size_t at) {
    const std::string& word = words_[at];
    if (word == "many" || word == "much") {
      form_.kind = AnswerKind::kNumber;
      size_t noun = at + 1;
      while (noun < words_.size() && !in_table(kAuxiliaries, words_[noun])) ++noun;
      const size_t last = noun == words_.size() ? at + 1 : noun - 1;
      if (word == "many" && last > at && last < words_.size() && !skipped_in_facts(words_[last])) {
        form_.counted = concept_of(words_[last]);
      }
      take_from(at + 1);
      return true;
    }
    if (word == "often") {
      form_.kind = AnswerKind::kFrequency;
      take_from(at + 1);
      return true;
    }
    const auto* const measure = std::ranges::find(kMeasures, word, &Measure::adjective);
    if (measure == kMeasures.end()) return false;
    form_.kind = AnswerKind::kNumber;
    form_.units = measure->units;
    ++telling_;
    const bool lasts =
        word == "long" && at + 1 < words_.size() &&
        (words_[at + 1] == "do" || words_[at + 1] == "does" || words_[at + 1] == "did" ||
         words_[at + 1] == "must" || words_[at + 1] == "should");
    if (lasts) {
      form_.kind = AnswerKind::kDuration;
      take_from(at + 1);
      std::erase_if(form_.words, [](const AskedWord& w) { return w.same == concept_of("take"); });
    } else {
      take_from(at);
    }
    return true;
  }

  bool read_what(size_t at, bool which) {
    const std::string& word = words_[at];
    if (!in_table(kAuxiliaries, word)) {
      // "Which river flows", "what colour is": the noun phrase ends before the verb.
      if (const AskedNoun* const noun = asked_noun(word)) {
        form_.kind = noun->kind;
        if (noun->said) take(at);
      } else {
        take(at);
        if (!form_.words.empty() && !form_.words.back().name) form_.words.back().optional = true;
      }
      take_from(at + 1);
      return true;
    }
    if (which) return false;
    const bool is = word == "is" || word == "are" || word == "was" || word == "were";
    if (!is) {  // "What does the mill grind?"
      take_from(at + 1);
      return words_.back() != "do" && form_.words.size() > 1 &&
             std::ranges::any_of(form_.words, [](const AskedWord& w) { return !w.name; });
    }
    size_t noun = at + 1;
    while (noun < words_.size() && (words_[noun] == "the" || words_[noun] == "a")) ++noun;
    if (noun == words_.size()) return false;
    const bool of = std::ranges::find(words_, "of") != words_.end() ||
                    std::ranges::find(words_, "s") != words_.end() ||
                    part_.find("\xE2\x80\x99s ") != part_.npos;
    const bool names = std::ranges::any_of(views_.begin() + static_cast<std::ptrdiff_t>(noun),
                                           views_.end(), has_capital);
    if (of) {
      head_noun(noun);
    } else {
      take_from(noun);
    }
    // "What is a spindle?" asks for an explanation.
    const auto said =
        std::ranges::count_if(form_.words, [](const AskedWord& w) { return !w.name; });
    return said >= 1 && (of || names || said >= 2);
  }

  /// "The height of the tower", "Marlow's height": the noun says the kind.
  void head_noun(size_t at) {
    for (size_t i = at; i < words_.size(); ++i) {
      const bool last = i + 1 == words_.size();
      const bool head = last ? std::ranges::find(words_, "s") != words_.end()
                             : words_[i + 1] == "of" || words_[i + 1] == "in";
      const AskedNoun* const noun =
          head && form_.kind == AnswerKind::kAny ? asked_noun(words_[i]) : nullptr;
      if (noun != nullptr) form_.kind = noun->kind;
      if (noun == nullptr || noun->said) take(i);
    }
  }

  void take_from(size_t at) {
    for (size_t i = at; i < words_.size(); ++i) take(i);
  }

  void take(size_t i) {
    std::string_view word = words_[i];
    for (const std::string_view own : {"\xE2\x80\x99s", "\xE2\x80\x99"}) {
      if (word.size() > own.size() && word.ends_with(own)) word.remove_suffix(own.size());
    }
    if (skipped_in_facts(word)) return;
    AskedWord out;
    out.same = concept_of(word);
    out.name = i > 0 && has_capital(views_[i]);
    const size_t before = i > 1 && (words_[i - 1] == "the" || words_[i - 1] == "a") ? 2 : 1;
    out.landmark = i >= before && (in_table(kLandmarks, words_[i - before]) ||
                                   in_table(kContrasts, words_[i - before]));
    const bool same_name =
        i > 0 && has_capital(views_[i - 1]) && !form_.words.empty() && form_.words.back().owner;
    out.owner = (i >= before && (words_[i - before] == "of" || words_[i - before] == "in" ||
                                 words_[i - before] == "at")) ||
                (i + 1 < words_.size() && words_[i + 1] == "s") || same_name;
    if (std::ranges::find(form_.words, out.same, &AskedWord::same) == form_.words.end()) {
      telling_ += !out.name && !is_weak_word(word) ? 1 : 0;
      form_.words.push_back(std::move(out));
    }
  }

  std::optional<QuestionForm> finished() {
    const auto required = std::ranges::count_if(form_.words, [](const AskedWord& w) {
      return !w.optional && !w.name &&
             !std::ranges::any_of(
                 kLightVerbs, [&](std::string_view verb) { return concept_of(verb) == w.same; });
    });
    // "What fuel does it use": "use" alone says too little.
    if (required == 0) {
      for (AskedWord& word : form_.words) word.optional = false;
    }
    // A fact has a subject and something that is said of it.
    const bool names = std::ranges::any_of(form_.words, &AskedWord::name);
    const bool place = form_.kind == AnswerKind::kPlace && names;
    if (telling_ < (names ? 1 : 2) && !place) return {};
    return std::move(form_);
  }

  const std::string_view part_;
  const std::vector<std::string_view> views_;
  std::vector<std::string> words_;
  QuestionForm form_;
  int telling_ = 0;  ///< words that are neither names nor words of any request
};

}  // namespace

bool has_capital(std::string_view word) {
  const bool digit = std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; });
  // Capitals of Latin-1 are C3 80 to C3 9E.
  const bool latin =
      word.size() > 1 && word[0] == '\xC3' && static_cast<unsigned char>(word[1]) <= 0x9E;
  return digit || latin || (!word.empty() && word[0] >= 'A' && word[0] <= 'Z');
}

bool skipped_in_facts(std::string_view word) {
  const bool letter = word.size() == 1 && (word[0] < '0' || word[0] > '9');
  return letter || (is_function_word(word) && !in_table(kFactWords, word)) ||
         in_table(kFillers, word);
}

std::string concept_of(std::string_view word) {
  for (const std::span<const SameWord> table :
       {std::span<const SameWord>(kIrregularVerbs), std::span<const SameWord>(kSameWords)}) {
    const auto same = std::ranges::find(table, word, &SameWord::word);
    if (same != table.end()) word = same->same;
  }
  std::string out = stem(word);
  const auto cut = [&](size_t bytes) { out.resize(out.size() - bytes); };
  // stem() leaves short words alone.
  if (out.size() > 5 && out.ends_with("ing")) {
    cut(3);
  } else if (out.size() > 3 && out.ends_with("ed")) {
    cut(2);
  } else if (out.size() > 3 && out.ends_with('s') && !out.ends_with("ss") && !out.ends_with("us") &&
             !out.ends_with("is")) {
    cut(1);
  }
  const bool verb = word.ends_with("ed") || word.ends_with("ing");
  const char last = out.empty() ? ' ' : out.back();
  const bool twice = out.size() > 3 && out[out.size() - 2] == last;
  if (verb && twice && last != 'l' && last != 's' && last != 'f' && last != 'z') cut(1);
  while (out.size() > 2 && (out.back() == 'e' || out.back() == 'i' || out.back() == 'y')) cut(1);
  return out;
}

std::optional<QuestionForm> form_of(std::string_view question) {
  return Reader(asked_part(question)).read();
}

}  // namespace chimere::orchestrator
