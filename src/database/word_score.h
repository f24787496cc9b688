// BM25 for FTS5 whose statistics of words are given: FTS5's own bm25() counts the rows with each
// phrase in every query, which takes longer than the search when a word is frequent.
// https://www.sqlite.org/fts5.html#custom_auxiliary_functions
#ifndef CHIMERE_DATABASE_WORD_SCORE_H_
#define CHIMERE_DATABASE_WORD_SCORE_H_

#include "base/result.h"
#include "database/database.h"

namespace chimere::database {

/// Adds the function `word_score(TABLE, ROWS, WEIGHT...)` to the connection: the negative of
/// FTS5's bm25(TABLE, WEIGHT...), so that more is better. ROWS is a blob of one 64-bit integer for
/// each phrase of the MATCH expression, from left to right: the number of rows with the phrase, or
/// 0 for a phrase that shall not count. One weight for each column; missing ones are 1.
Result<void> add_word_score(Database& database);

}  // namespace chimere::database

#endif  // CHIMERE_DATABASE_WORD_SCORE_H_
