// Questions to full-text expressions of SQLite's FTS5.
#ifndef CHIMERE_RETRIEVAL_WORDS_QUERY_H_
#define CHIMERE_RETRIEVAL_WORDS_QUERY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::retrieval {

/// The words of a query, in their order, without repetitions, 48 at most: sequences without spaces
/// and without punctuation at their ends; "no-color" and "pthread_create" are one word each. Common
/// English words are left out if others remain. A word that stands behind dashes ("--all", "-l")
/// keeps none.
std::vector<std::string> words_of_query(std::string_view query);

/// Texts to be scored by the words of a query.
struct TextsToScore {
  std::string expression;
  /// For each phrase of the expression, from left to right: how many texts have it, or 0 for one
  /// that only chooses texts. Every word of the query that occurs is one of the others.
  std::vector<int64_t> texts_with_phrase;
  int64_t most = 0;  ///< texts to be scored, in the order of their ids
};

/// Which texts are worth scoring, `most` at most: the time of BM25 grows with the number of texts
/// that it scores. Those with one of the rarer words, as many words as find at most `most` texts
/// together. If even the rarest word is in more: first those with the rarest and the next rarest
/// words, as few of these as leave no more than `most`, and those with any of the words in their
/// title or headings if they are few enough; then, up to `most`, those with one word less.
/// `count` returns the number of texts that an expression finds, up to a limit; for single words it
/// is asked without one (INT64_MAX). None without words. Errors: those of `count`.
Result<std::vector<TextsToScore>> texts_to_score(
    const std::vector<std::string>& words, int64_t most,
    const std::function<Result<int64_t>(const std::string& expression, int64_t limit)>& count);

/// An expression that finds texts with any of the words; empty without words. Everything in it is
/// quoted: a query contains no operators.
std::string any_of(const std::vector<std::string>& words);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_WORDS_QUERY_H_
