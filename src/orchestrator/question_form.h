// What a question asks for, by its words alone: of which subject, which fact, and what kind of
// thing the answer is. And the sentences of passages that have all of it: a model too weak to judge
// passages answers from these, or says that it does not know. English; other questions have no
// form.
#ifndef CHIMERE_ORCHESTRATOR_QUESTION_FORM_H_
#define CHIMERE_ORCHESTRATOR_QUESTION_FORM_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/answer_kind.h"
#include "orchestrator/passages.h"

namespace chimere::orchestrator {

/// A content word of a question.
struct AskedWord {
  std::string same;       ///< concept_of() the word
  bool name = false;      ///< written like a name: the title or headings may have it
  bool optional = false;  ///< the noun of "which river": a sentence with it is better
  bool owner = false;     ///< a name after "of" or with "'s": the fact is of a part of it
  bool landmark = false;  ///< after "near", "beside" and such in the question itself
};

struct QuestionForm {
  AnswerKind kind = AnswerKind::kAny;
  std::vector<AskedWord> words;  ///< a sentence with its headings must have all that are required
  std::string counted;           ///< "how many NOUN": the number stands beside it; else empty
  std::string units;             ///< units of this measure stand for its word; else empty
};

/// One word for all forms of a word and for what means the same: "built", "builder" and "erected".
/// `word`: in lower case.
std::string concept_of(std::string_view word);

/// Whether a word (in lower case) says nothing of a fact: articles, auxiliaries, prepositions.
bool skipped_in_facts(std::string_view word);
/// Whether a word is written like a name: with a capital or with digits.
bool has_capital(std::string_view word);

/// The form of a question. Absent: it has none that the tables know, such as questions that ask for
/// an explanation, for a yes or no, or for what a command or an option does.
std::optional<QuestionForm> form_of(std::string_view question);

/// A sentence that answers.
struct Fact {
  size_t passage = 0;  ///< its place in the list
  std::string text;    ///< the sentence on one line
  double score = 0;    ///< of the question's words, how many the sentence itself has
};

/// The sentences that answer a question of this form, best first: with the subject (in the
/// sentence, the title or the headings), the fact that is asked of it, and something of the kind.
std::vector<Fact> facts_in(const QuestionForm& form, std::span<const Passage> passages);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_QUESTION_FORM_H_
