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

/// Expressions that find the texts that are worth scoring: the time of BM25 grows with the number
/// of texts that it scores. Words are taken in the order of their frequency, rarest first, while
/// all texts with one of them are at most `most`, and the rarest one in any case: the first
/// expression finds texts with any of these. The second one, if there are more frequent words,
/// finds those of the same texts that also have one of the frequent words. A text's score is the
/// larger of the two. `count` returns the number of texts that an expression finds, up to a limit.
/// None without words. Errors: those of `count`.
Result<std::vector<std::string>> affordable(
    const std::vector<std::string>& words, int64_t most,
    const std::function<Result<int64_t>(const std::string& expression, int64_t limit)>& count);

/// An expression that finds texts with any of the words; empty without words. Everything in it is
/// quoted: a query contains no operators.
std::string any_of(const std::vector<std::string>& words);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_WORDS_QUERY_H_
