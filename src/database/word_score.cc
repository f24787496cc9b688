#include "database/word_score.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace chimere::database {
namespace {

/// What stays the same during a query.
struct Scorer {
  std::vector<double> idf;  ///< by phrase; 0: does not count
  std::vector<double> weights;
  double mean_length = 1;
  std::vector<double> frequency;  ///< of the phrases in the row, weighted
};

void fail(sqlite3_context* out, const char* why) { sqlite3_result_error(out, why, -1); }

/// The constants and the lower bound of the inverse document frequency are those of FTS5's bm25().
double inverse_frequency(double rows, double rows_with_phrase) {
  constexpr double kLeast = 1e-6;
  const double others = std::max(0.0, rows - rows_with_phrase);  // counted at another time
  return std::max(kLeast, std::log((others + 0.5) / (rows_with_phrase + 0.5)));
}

std::unique_ptr<Scorer> new_scorer(const Fts5ExtensionApi& api, Fts5Context* row,
                                   std::span<sqlite3_value*> values) {
  const auto n_phrases = static_cast<size_t>(api.xPhraseCount(row));
  if (values.empty() || sqlite3_value_bytes(values[0]) != static_cast<int>(8 * n_phrases))
    return nullptr;
  std::vector<int64_t> found(n_phrases);
  if (n_phrases > 0) std::memcpy(found.data(), sqlite3_value_blob(values[0]), 8 * n_phrases);
  sqlite3_int64 rows = 0;
  sqlite3_int64 words = 0;
  if (api.xRowCount(row, &rows) != SQLITE_OK || api.xColumnTotalSize(row, -1, &words) != SQLITE_OK)
    return nullptr;
  auto scorer = std::make_unique<Scorer>();
  for (const int64_t n : found) {
    scorer->idf.push_back(
        n > 0 ? inverse_frequency(static_cast<double>(rows), static_cast<double>(n)) : 0);
  }
  for (size_t i = 1; i < values.size(); ++i)
    scorer->weights.push_back(sqlite3_value_double(values[i]));
  scorer->mean_length =
      std::max(static_cast<double>(words) / std::max(1.0, static_cast<double>(rows)), 1e-9);
  scorer->frequency.resize(n_phrases);
  return scorer;
}

void word_score(const Fts5ExtensionApi* api, Fts5Context* row, sqlite3_context* out, int n_values,
                sqlite3_value** values) {
  auto* scorer = static_cast<Scorer*>(api->xGetAuxdata(row, 0));
  if (scorer == nullptr) {
    auto made = new_scorer(*api, row, std::span(values, static_cast<size_t>(n_values)));
    if (made == nullptr) return fail(out, "word_score: one number of rows for each phrase");
    scorer = made.get();
    // Takes the scorer over, also when it fails.
    if (api->xSetAuxdata(row, made.release(), [](void* p) { delete static_cast<Scorer*>(p); }) !=
        SQLITE_OK)
      return sqlite3_result_error_nomem(out);
  }
  std::ranges::fill(scorer->frequency, 0);
  int n_hits = 0;
  if (const int status = api->xInstCount(row, &n_hits); status != SQLITE_OK)
    return sqlite3_result_error_code(out, status);
  for (int i = 0; i < n_hits; ++i) {
    int phrase = 0;
    int column = 0;
    int place = 0;
    if (const int status = api->xInst(row, i, &phrase, &column, &place); status != SQLITE_OK)
      return sqlite3_result_error_code(out, status);
    const auto c = static_cast<size_t>(column);
    scorer->frequency.at(static_cast<size_t>(phrase)) +=
        c < scorer->weights.size() ? scorer->weights[c] : 1;
  }
  int length = 0;
  if (const int status = api->xColumnSize(row, -1, &length); status != SQLITE_OK)
    return sqlite3_result_error_code(out, status);
  constexpr double kSaturation = 1.2;
  constexpr double kLengthShare = 0.75;
  const double norm =
      kSaturation * (1 - kLengthShare + kLengthShare * length / scorer->mean_length);
  double score = 0;
  for (size_t i = 0; i < scorer->idf.size(); ++i) {
    const double f = scorer->frequency[i];
    score += scorer->idf[i] * (f * (kSaturation + 1) / (f + norm));
  }
  sqlite3_result_double(out, score);
}

}  // namespace

Result<void> add_word_score(Database& database) {
  sqlite3_stmt* select = nullptr;
  if (sqlite3_prepare_v2(database.handle(), "SELECT fts5(?1)", -1, &select, nullptr) != SQLITE_OK)
    return last_error(database.handle());
  fts5_api* api = nullptr;
  sqlite3_bind_pointer(select, 1, static_cast<void*>(&api), "fts5_api_ptr", nullptr);
  sqlite3_step(select);
  sqlite3_finalize(select);
  if (api == nullptr ||
      api->xCreateFunction(api, "word_score", nullptr, word_score, nullptr) != SQLITE_OK)
    return unsupported("this SQLite has no full-text search (FTS5)");
  return {};
}

}  // namespace chimere::database
