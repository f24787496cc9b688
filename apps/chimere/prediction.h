// Texts run through models: the logits behind each of their tokens.
#ifndef CHIMERE_APPS_CHIMERE_PREDICTION_H_
#define CHIMERE_APPS_CHIMERE_PREDICTION_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "loaded_model.h"

namespace chimere::app {

/// [n_vocab], valid during the call that hands it over.
using LogitsRow = std::span<const float>;
/// Gets the logits behind the token at `position`, one row of each model.
using UseLogits = std::function<Status(int64_t position, std::span<const LogitsRow> rows)>;

/// Runs tokens through the models, side by side, and hands over the logits of positions [first,
/// tokens.size()), in order. The rows go in steps of at most 64, so that the logits of a large
/// vocabulary stay small; the results do not depend on the steps. Errors: those of forward() and of
/// `use`. Positions from `step_from` on are computed as a generation's, those before as a prompt's.
Status for_each_logits(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                       int64_t step_from, int64_t first, const UseLogits& use);

/// The same in windows of `context` tokens (at least 2) that move on by half of it: every position
/// but the last is handed over once, as one of the whole text, computed from at least half a window
/// of what stands before it (or all there is). Where one of the models leaves experts out of
/// generations
/// (--expert-top-p), the positions that are handed over are a generation's, else all are a
/// prompt's. `progress` is told after each window how many tokens are done.
Status predict_text(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                    int64_t context, const UseLogits& use,
                    const std::function<void(int64_t)>& progress);

/// Negative log-likelihood of a token, in nats. Errors: kInvalidData (logits that are no numbers).
Result<double> negative_log_likelihood(LogitsRow logits, int32_t token);

struct TokenText {
  std::vector<int32_t> tokens;  ///< at least two
  size_t bytes = 0;             ///< of the text
};

/// A text as tokens of the model, with the token that begins a text where the model wants one.
/// `path`: where it is from. Errors: kInvalidArgument if the text or the context is too short.
Result<TokenText> tokens_of_text(const LoadedModel& loaded, const std::string& text,
                                 const std::string& path);
/// The same of a file. Errors: those of read_file() too.
Result<TokenText> read_tokens(const LoadedModel& loaded, const std::string& path);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PREDICTION_H_
