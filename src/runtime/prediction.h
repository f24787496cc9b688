// Runs texts through models and hands over the logits after each token.
#ifndef CHIMERE_RUNTIME_PREDICTION_H_
#define CHIMERE_RUNTIME_PREDICTION_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/loaded_model.h"

namespace chimere::runtime {

/// [n_vocab], valid during the call that hands it over.
using LogitsRow = std::span<const float>;
/// Receives the logits after the token at `position`, one row of each model.
using UseLogits = std::function<Status(int64_t position, std::span<const LogitsRow> rows)>;

/// Runs tokens through all models, and hands over the logits of positions [first,
/// tokens.size()) in order, with the models' default adapters. Steps have at most 64 rows, so that
/// the logits of a large vocabulary stay small; results do not depend on the steps. Errors: those
/// of forward() and of `use`. Positions from `decode_from` on are decode rows, those before it
/// prefill rows.
Status for_each_logits(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                       int64_t decode_from, int64_t first, const UseLogits& use);

/// The same in windows of `context` tokens (at least 2) with a stride of half a window: every
/// position of the text but the last is handed over once, computed from at least half a window of
/// preceding tokens (or all there are). If a model skips experts in decode rows (--expert-top-p),
/// the positions handed over are computed as decode rows, otherwise as prefill rows. `progress`
/// receives the number of tokens done after each window.
Status predict_text(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                    int64_t context, const UseLogits& use,
                    const std::function<void(int64_t)>& progress);

/// Negative log-likelihood of a token, in nats. Errors: kInvalidData (NaN logits).
Result<double> negative_log_likelihood(LogitsRow logits, int32_t token);

struct TokenText {
  std::vector<int32_t> tokens;  ///< at least two
  size_t bytes = 0;             ///< of the text
};

/// Tokenizes a text, with a BOS token if the model uses one.
/// `path`: its origin, for errors. Errors: kInvalidArgument if text or context is too short.
Result<TokenText> tokens_of_text(const LoadedModel& loaded, const std::string& text,
                                 const std::string& path);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_PREDICTION_H_
