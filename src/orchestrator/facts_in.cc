// The sentences of passages that answer a question of a known form (question_form.h).
#include <algorithm>
#include <array>
#include <charconv>

#include "orchestrator/question_form.h"
#include "orchestrator/question_form_tables.h"
#include "orchestrator/relevance.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

using Concepts = std::vector<std::string>;

bool has(const Concepts& all, std::string_view word) {
  return std::ranges::find(all, word) != all.end();
}

struct Token {
  std::string word;  ///< in lower case
  std::string same;
  size_t clause = 0;
  bool capital = false;
  bool verb = false;      ///< in the past; others are not known
  bool landmark = false;  ///< after "near" and such, or after "than"
  bool clock = false;     ///< the hour of "6:00"
};

struct Sentence {
  std::string text;  ///< on one line
  Concepts heading;  ///< concepts of the heading inside the passage above it
  std::vector<Token> tokens;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool all_digits(std::string_view word) { return std::ranges::all_of(word, is_digit); }

int value_of(std::string_view word) {
  int out = 0;
  std::from_chars(word.data(), word.data() + word.size(), out);
  return out;
}

bool is_article(std::string_view word) {
  return word == "the" || word == "a" || word == "an" || word == "its" || word == "their";
}

bool is_verb(std::string_view word) {
  return (word.size() > 4 && word.ends_with("ed") && word != "hundred") ||
         std::ranges::find(kIrregularVerbs, word, &SameWord::word) != kIrregularVerbs.end();
}

Concepts concepts_of(std::string_view text) {
  Concepts out;
  for (const std::string& word : words_of(text)) out.push_back(concept_of(word));
  return out;
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> out;
  size_t clause = 0;
  size_t end = 0;
  for (const std::string_view view : word_views(text)) {
    const auto begin = static_cast<size_t>(view.data() - text.data());
    const std::string_view between = text.substr(end, begin - end);
    const bool number = between.size() == 1 && end > 0 && is_digit(text[end - 1]) &&
                        is_digit(view[0]);  // 4,200 and 6:00
    Token token;
    token.word = lower(view);
    token.same = concept_of(token.word);
    token.capital = has_capital(view);
    token.verb = is_verb(token.word);
    if (number && between == ":" && !out.empty()) out.back().clock = true;
    const bool divides = !number && between.find_first_of(",;:()") != between.npos;
    if (!out.empty() && (divides || in_table(kClauseWords, token.word))) ++clause;
    token.clause = clause;
    size_t before = out.size();
    while (before > 0 && is_article(out[before - 1].word)) --before;
    if (before > 0) {
      const std::string& prior = out[before - 1].word;
      const bool next_to = prior == "to" && before > 1 &&
                           (out[before - 2].word == "next" || out[before - 2].word == "close");
      token.landmark = next_to || in_table(kLandmarks, prior) || in_table(kContrasts, prior);
    }
    out.push_back(std::move(token));
    end = begin + view.size();
  }
  return out;
}

bool ends_in_abbreviation(std::string_view text) {
  const size_t end = text.find_last_not_of(" \n\t\r");
  if (end == text.npos || text[end] != '.') return false;
  const std::vector<std::string_view> words = word_views(text.substr(0, end + 1));
  if (words.empty()) return false;
  const std::string_view last = words.back();
  return (last.size() == 1 && last[0] >= 'A' && last[0] <= 'Z') ||
         in_table(kAbbreviations, lower(last));
}

/// "- item", "Height: 4 m", "| a | b |": a line that is a sentence of its own.
bool is_row(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return false;
  line.remove_prefix(begin);
  if (line.size() > 1 && (line[0] == '-' || line[0] == '*' || line[0] == '+') && line[1] == ' ') {
    return true;
  }
  if (line[0] == '|') return true;
  const size_t colon = line.find(": ");
  return colon < 40 && line.substr(0, colon).find_first_of(".,;!?") == line.npos;
}

std::vector<Sentence> sentences_in(std::string_view passage) {
  std::vector<std::string> pieces;
  bool open = false;  // the last piece continues
  for (const std::string& piece : sentences_of(passage)) {
    size_t begin = 0;
    while (begin < piece.size()) {
      size_t end = begin;
      do {  // Up to a line that is a row, or the end of one.
        end = std::min(piece.find('\n', end), piece.size() - 1) + 1;
      } while (end < piece.size() && !is_row(std::string_view(piece).substr(begin, end - begin)) &&
               !is_row(std::string_view(piece).substr(end)));
      const std::string part = piece.substr(begin, end - begin);
      if (open) {
        pieces.back() += part;
      } else {
        pieces.push_back(part);
      }
      open = ends_in_abbreviation(pieces.back());
      begin = end;
    }
  }
  std::vector<Sentence> out;
  Concepts heading;
  for (const std::string& piece : pieces) {
    Sentence sentence;
    sentence.text = on_one_line(piece);
    sentence.tokens = tokens_of(sentence.text);
    if (sentence.tokens.empty()) continue;  // a ruled line, or one of a table
    const char last = sentence.text.back();
    const bool heads = piece.ends_with("\n\n") && sentence.text.size() < 60 && last != '.' &&
                       last != '!' && last != '?' && !is_row(piece);
    if (heads) {
      heading = concepts_of(sentence.text);
      continue;
    }
    sentence.heading = heading;
    out.push_back(std::move(sentence));
  }
  return out;
}

/// One passage, asked one question.
class Matcher {
 public:
  Matcher(const QuestionForm& form, const Passage& passage)
      : form_(form),
        title_(concepts_of(passage.name + " " + subject_of(passage.name) + " " +
                           subject_of(passage.document))),
        place_(concepts_of(passage.place)),
        sentences_(sentences_in(passage.text)) {}

  size_t size() const { return sentences_.size(); }
  const std::string& text(size_t at) const { return sentences_[at].text; }

  /// Of a sentence; 0: it does not answer.
  double score(size_t at) const {
    const Sentence& sentence = sentences_[at];
    size_t own = 0;        // words that the sentence has
    size_t told = 0;       // of these, those that are no names, or that the section's heading has
    bool borrows = false;  // a name from the title, the headings or a sentence before
    bool missing = false;
    for (const AskedWord& word : form_.words) {
      const bool here = mentions(sentence, word);
      const bool above =
          has(sentence.heading, word.same) || (has(place_, word.same) && !has(title_, word.same));
      own += here ? 1 : 0;
      told += !word.name && (here || above) ? 1 : 0;
      if (here || above || word.optional) continue;
      if (has(title_, word.same)) {
        borrows = true;
      } else if (word.name && before(at, word)) {
        borrows = true;
      } else if (!unit_says(sentence, word)) {
        missing = true;
      } else {
        ++told;
      }
    }
    if (missing || of_another(sentence)) return 0;
    if (told == 0 && !tells_place(sentence)) return 0;
    if ((borrows || own == 0) && (has_other_subject(sentence) || refers_to_another(at))) return 0;
    if (!has_kind(sentence)) return 0;
    return static_cast<double>(1 + own) / static_cast<double>(1 + form_.words.size());
  }

 private:
  bool asked(std::string_view same) const {
    return std::ranges::find(form_.words, same, &AskedWord::same) != form_.words.end();
  }
  bool asked_fact(std::string_view same) const {
    return std::ranges::any_of(form_.words,
                               [&](const AskedWord& w) { return !w.name && w.same == same; });
  }
  bool optional(std::string_view same) const {
    return std::ranges::any_of(form_.words,
                               [&](const AskedWord& w) { return w.optional && w.same == same; });
  }
  bool known_name(const Token& token) const { return asked(token.same) || has(title_, token.same); }

  static bool mentions(const Sentence& sentence, const AskedWord& word) {
    return std::ranges::any_of(sentence.tokens, [&](const Token& token) {
      return token.same == word.same && (!token.landmark || word.landmark);
    });
  }

  /// Whether a sentence before has the name and this one refers back.
  bool before(size_t at, const AskedWord& word) const {
    const bool refers = std::ranges::any_of(
        sentences_[at].tokens, [](const Token& token) { return in_table(kPronouns, token.word); });
    if (!refers) return false;
    for (size_t i = at; i-- > 0;) {
      if (mentions(sentences_[i], word)) return true;
    }
    return false;
  }

  bool is_unit(const Token& token) const {
    return std::ranges::any_of(kUnits, [&](const Unit& unit) {
      return unit.unit == token.word && unit.measures == form_.units;
    });
  }

  /// "How far" is answered by "12 km" without the word: the measure's word is the first.
  bool unit_says(const Sentence& sentence, const AskedWord& word) const {
    if (form_.units.empty() || word.same != form_.words.front().same) return false;
    return std::ranges::any_of(sentence.tokens, [&](const Token& t) { return is_unit(t); });
  }

  bool tells_place(const Sentence& sentence) const {
    return form_.kind == AnswerKind::kPlace &&
           std::ranges::any_of(sentence.tokens,
                               [](const Token& t) { return in_table(kPlaceVerbs, t.word); });
  }

  /// A name that is no date and no first word of a plain sentence.
  static bool is_name(const Sentence& sentence, size_t i) {
    const Token& token = sentence.tokens[i];
    if (!token.capital || is_digit(token.word[0]) || in_table(kTimeWords, token.word)) return false;
    if (i > 0) return true;
    if (skipped_in_facts(token.word) || in_table(kPronouns, token.word)) return false;
    if (i + 1 == sentence.tokens.size()) return false;
    const Token& next = sentence.tokens[i + 1];
    // "Ostrand pie is": a name before a noun; "Old letters are": none.
    const bool noun = i + 2 < sentence.tokens.size() && !is_weak_word(token.word) &&
                      !skipped_in_facts(next.word) &&
                      in_table(kAuxiliaries, sentence.tokens[i + 2].word);
    return next.capital || next.verb || in_table(kAuxiliaries, next.word) || next.word == "lies" ||
           next.word == "s" || next.word == "stands" || noun || in_table(kContrasts, next.word);
  }

  /// The name that a sentence begins with, before its verb; npos: there is none.
  size_t leading_name(const Sentence& sentence) const {
    for (size_t i = 0; i < sentence.tokens.size(); ++i) {
      const Token& token = sentence.tokens[i];
      if (in_table(kAuxiliaries, token.word) || token.verb || token.clause > 0) break;
      if (i == 0 ? in_table(kPronouns, token.word) : in_table(kPlaceWords, token.word)) break;
      // The fact itself, unless it is the fact of a name: "the mayor of Ostrand".
      const bool last = i + 1 == sentence.tokens.size();
      const bool named = !last && (sentence.tokens[i + 1].word == "of" ||
                                   (sentence.tokens[i + 1].capital && !optional(token.same)));
      if (!token.capital && asked_fact(token.same) && !has(title_, token.same) && !named) break;
      size_t prior = i;
      while (prior > 0 && is_article(sentence.tokens[prior - 1].word)) --prior;
      const bool placed = prior > 0 && in_table(kBeforePlaces, sentence.tokens[prior - 1].word);
      if (is_name(sentence, i) && !placed && !token.landmark) return i;
    }
    return std::string::npos;
  }

  bool is_person(const Sentence& sentence, size_t name) const {
    return name + 1 < sentence.tokens.size() && is_name(sentence, name + 1) &&
           !sentence.tokens[name + 1].landmark;
  }

  /// "The neighbouring Ostrand has 900 inhabitants" does not tell of the title's town.
  bool has_other_subject(const Sentence& sentence) const {
    if (placed_elsewhere(sentence) || acts_on_another(sentence)) return true;
    const size_t name = leading_name(sentence);
    if (name == std::string::npos || known_name(sentence.tokens[name])) return false;
    if (!is_person(sentence, name)) return true;
    // "Anna Keller founded it": the answer itself, or who did it.
    if (form_.kind == AnswerKind::kPerson) return is_passive(sentence);
    const bool owners = std::ranges::all_of(
        form_.words, [](const AskedWord& word) { return !word.name || word.owner; });
    for (size_t i = name + 2; i < sentence.tokens.size(); ++i) {
      const std::string& word = sentence.tokens[i].word;
      if (in_table(kPronouns, word)) return false;
      if (word != "the" || i + 1 == sentence.tokens.size()) continue;
      const bool other = form_.kind != AnswerKind::kAny &&
                         !asked_fact(sentence.tokens[i + 1].same);  // "founded the company"
      if (owners || other) return false;
    }
    return true;
  }

  /// "At Ostrand, the market takes place on Monday."
  bool placed_elsewhere(const Sentence& sentence) const {
    if (!in_table(kBeforePlaces, sentence.tokens[0].word)) return false;
    size_t name = 1;
    while (name < sentence.tokens.size() && is_article(sentence.tokens[name].word)) ++name;
    if (name == sentence.tokens.size() || !is_name(sentence, name)) return false;
    while (name < sentence.tokens.size() && sentence.tokens[name].capital) ++name;
    for (size_t i = name; i < sentence.tokens.size(); ++i) {
      const Token& token = sentence.tokens[i];
      if (known_name(token) && token.capital) return false;
      if (token.word == "it" || token.word == "he" || token.word == "she" || token.word == "they")
        return false;
    }
    return true;
  }

  /// "Petra Holm manages Ostrand Mill."
  bool acts_on_another(const Sentence& sentence) const {
    if (form_.kind == AnswerKind::kAny || form_.kind == AnswerKind::kPlace) return false;
    for (size_t i = 0; i + 1 < sentence.tokens.size(); ++i) {
      if (!asked_fact(sentence.tokens[i].same)) continue;
      size_t object = i + 1;
      while (object < sentence.tokens.size() && is_article(sentence.tokens[object].word)) ++object;
      const bool name = object < sentence.tokens.size() && is_name(sentence, object);
      if (name && i > 0 && leading_name(sentence) < i && !known_name(sentence.tokens[object])) {
        return true;
      }
    }
    return false;
  }

  /// "was founded by"
  bool is_passive(const Sentence& sentence) const {
    for (size_t i = 0; i + 1 < sentence.tokens.size(); ++i) {
      const bool by = sentence.tokens[i + 1].word == "by";
      if (by && asked_fact(sentence.tokens[i].same)) return true;
    }
    return false;
  }

  /// Whether the pronoun of a sentence stands for another name than the one that is asked about.
  bool refers_to_another(size_t at) const {
    const std::vector<Token>& tokens = sentences_[at].tokens;
    const auto pronoun =
        std::ranges::find_if(tokens, [](const Token& t) { return in_table(kPronouns, t.word); });
    if (pronoun == tokens.end()) return false;
    const std::string& word = pronoun->word;
    const bool person = word == "he" || word == "she" || word == "his" || word == "her";
    for (size_t i = at; i-- > 0;) {
      const size_t name = leading_name(sentences_[i]);
      if (name == std::string::npos) continue;
      if (known_name(sentences_[i].tokens[name])) return false;
      if (is_person(sentences_[i], name) == person) return true;
    }
    return false;
  }

  /// "The population of Ostrand", "Ostrand's population", "Ostrand, whose population".
  bool of_another(const Sentence& sentence) const {
    const std::vector<Token>& tokens = sentence.tokens;
    for (size_t i = 1; i < tokens.size(); ++i) {
      // "The Ostrand press", where the title is "Marlow press".
      const Token& prior = tokens[i - 1];
      if (asked_fact(tokens[i].same) && has(title_, tokens[i].same) && prior.capital &&
          !known_name(prior) && !skipped_in_facts(prior.word) && !in_table(kPronouns, prior.word)) {
        return true;
      }
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!asked_fact(tokens[i].same) || tokens[i].verb) continue;
      size_t owner = i + 1;
      if (owner < tokens.size() && tokens[owner].word == "of") {
        ++owner;
        while (owner < tokens.size() && is_article(tokens[owner].word)) ++owner;
        if (owner < tokens.size() && is_name(sentence, owner) && !known_name(tokens[owner])) {
          return true;
        }
      }
      if (i >= 2 && tokens[i - 1].word == "s" && is_name(sentence, i - 2) &&
          !known_name(tokens[i - 2])) {
        return true;
      }
      if (i >= 2 && tokens[i - 1].word == "whose") {
        size_t name = i - 1;
        while (name-- > 0) {
          if (is_name(sentence, name)) break;
        }
        if (name < tokens.size() && !known_name(tokens[name])) return true;
      }
    }
    return false;
  }

  /// Whether what a clause tells can be of the fact that is asked: it has one of its words, or no
  /// verb of its own.
  bool clause_tells(const Sentence& sentence, size_t clause) const {
    bool verb = false;
    for (const Token& token : sentence.tokens) {
      if (token.clause != clause) continue;
      if (asked_fact(token.same)) return true;
      verb = verb || token.verb;
    }
    return !verb;
  }

  bool has_kind(const Sentence& sentence) const {
    for (size_t i = 0; i < sentence.tokens.size(); ++i) {
      const Token& token = sentence.tokens[i];
      if (asked(token.same) && form_.kind != AnswerKind::kReason) continue;
      if (is_kind(sentence, i) && clause_tells(sentence, token.clause)) return true;
    }
    const bool she = std::ranges::any_of(
        sentence.tokens, [](const Token& t) { return t.word == "he" || t.word == "she"; });
    return form_.kind == AnswerKind::kPerson && she;
  }

  bool is_kind(const Sentence& sentence, size_t i) const {
    const Token& token = sentence.tokens[i];
    switch (form_.kind) {
      case AnswerKind::kAny:
        return !skipped_in_facts(token.word) && !in_table(kPronouns, token.word) &&
               !has(title_, token.same);
      case AnswerKind::kPerson:
        return is_person_answer(sentence, i);
      case AnswerKind::kTime:
        return is_time(sentence, i);
      case AnswerKind::kPlace:
        return is_place(sentence, i);
      case AnswerKind::kNumber:
        return is_number(sentence, i) && is_beside(sentence, i);
      case AnswerKind::kDuration:
        return is_time_unit(token) && i > 0;
      case AnswerKind::kFrequency:
        return in_table(kFrequencies, token.word) || token.word.ends_with("days");
      case AnswerKind::kColour:
        return in_table(kColours, token.word);
      case AnswerKind::kReason:
        return in_table(kReasons, token.word);
    }
    return false;
  }

  static bool is_time_unit(const Token& token) {
    return std::ranges::any_of(kUnits, [&](const Unit& unit) {
      return unit.unit == token.word && unit.measures == "time";
    });
  }

  bool is_year(const Sentence& sentence, size_t i) const {
    const std::string& word = sentence.tokens[i].word;
    if (!all_digits(word) || word.size() < 3 || word.size() > 4) return false;
    const std::string prior = i > 0 ? sentence.tokens[i - 1].word : "";
    if (before_unit(sentence, i)) return false;
    const bool dated = in_table(kBeforeYears, prior) || in_table(kTimeWords, prior) || i == 0;
    const int value = value_of(word);
    return dated && value >= 100 && value <= 2200;
  }

  /// "1900 grams", "1900 gates" where gates are counted.
  bool before_unit(const Sentence& sentence, size_t i) const {
    if (i + 1 == sentence.tokens.size()) return false;
    const Token& next = sentence.tokens[i + 1];
    return std::ranges::find(kUnits, next.word, &Unit::unit) != kUnits.end() ||
           (!form_.counted.empty() && next.same == form_.counted);
  }

  bool is_time(const Sentence& sentence, size_t i) const {
    const Token& token = sentence.tokens[i];
    // "may" and "march" are months with a capital.
    const bool month = token.word != "may" && token.word != "march";
    if (in_table(kTimeWords, token.word) && (month || token.capital)) return true;
    const bool four = all_digits(token.word) && token.word.size() == 4 && token.word[0] <= '2';
    return token.clock || is_year(sentence, i) || (four && !before_unit(sentence, i));
  }

  bool is_number(const Sentence& sentence, size_t i) const {
    const Token& token = sentence.tokens[i];
    if (in_table(kNumberWords, token.word)) {
      const bool one_of = token.word == "one" && i + 1 < sentence.tokens.size() &&
                          sentence.tokens[i + 1].word == "of";
      return !one_of;
    }
    return is_digit(token.word[0]) && !is_year(sentence, i) && !token.clock;
  }

  /// Whether a number stands beside the noun that is counted: "twelve old gates", "gates: 12".
  bool is_beside(const Sentence& sentence, size_t i) const {
    constexpr size_t kBefore = 4;
    constexpr size_t kAfter = 4;
    if (form_.counted.empty()) return true;
    for (size_t j = 0; j < sentence.tokens.size(); ++j) {
      if (sentence.tokens[j].same != form_.counted) continue;
      if (j > i ? j - i <= kBefore : i - j <= kAfter) return true;
    }
    return false;
  }

  bool is_person_answer(const Sentence& sentence, size_t i) const {
    const Token& token = sentence.tokens[i];
    const std::string prior = i > 0 ? sentence.tokens[i - 1].word : "";
    if (i > 1 && prior == "by" && asked_fact(sentence.tokens[i - 2].same)) {
      return !is_digit(token.word[0]);
    }
    const bool placed = in_table(kPlaceWords, prior) || prior == "since" || prior == "until";
    return is_name(sentence, i) && !placed && !token.landmark;
  }

  static bool is_place(const Sentence& sentence, size_t i) {
    const Token& token = sentence.tokens[i];
    if (is_digit(token.word[0]) || in_table(kTimeWords, token.word)) return false;
    size_t prior = i;
    while (prior > 0 && is_article(sentence.tokens[prior - 1].word)) --prior;
    if (prior == 0 || is_article(token.word)) return false;
    return in_table(kPlaceWords, sentence.tokens[prior - 1].word) && !skipped_in_facts(token.word);
  }

  const QuestionForm& form_;
  const Concepts title_;
  const Concepts place_;
  const std::vector<Sentence> sentences_;
};

}  // namespace

std::vector<Fact> facts_in(const QuestionForm& form, std::span<const Passage> passages) {
  std::vector<Fact> out;
  for (size_t p = 0; p < passages.size(); ++p) {
    const Matcher matcher(form, passages[p]);
    for (size_t at = 0; at < matcher.size(); ++at) {
      const double score = matcher.score(at);
      if (score > 0) out.push_back({p, matcher.text(at), score});
    }
  }
  // Earlier passages and sentences win ties.
  std::ranges::stable_sort(out, [](const Fact& a, const Fact& b) { return a.score > b.score; });
  return out;
}

}  // namespace chimere::orchestrator
