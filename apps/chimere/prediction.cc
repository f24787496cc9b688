#include "prediction.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "command.h"
#include "model/chunking.h"
#include "sampling/log_softmax.h"

namespace chimere::app {

Status for_each_logits(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                       model::RowClass row_class, int64_t first, const UseLogits& use) {
  std::vector<int32_t> message_starts;
  if (const int32_t start = models[0]->tokenizer->find("<|im_start|>"); start >= 0)
    message_starts.push_back(start);
  std::vector<std::unique_ptr<state::SequenceState>> sequences;
  for (const LoadedModel* m : models) sequences.push_back(m->model->states().create_sequence());
  std::vector<ConstMatrixView> logits(models.size());
  std::vector<LogitsRow> of_position(models.size());
  int64_t at = 0;
  for (const int32_t size : model::chunk_sizes(tokens, message_starts)) {
    model::StepPlan plan;
    model::SequenceRows& rows = plan.sequences.emplace_back();
    rows.row_class = row_class;
    const auto chunk = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
    rows.tokens.assign(chunk.begin(), chunk.end());
    if (row_class == model::RowClass::kChunk) rows.chunks = {size};
    for (int32_t r = 0; r < size; ++r) {
      if (at + r >= first) rows.logits_of.push_back(r);
    }
    for (size_t m = 0; m < models.size(); ++m) {
      rows.state = sequences[m].get();
      CHIMERE_TRY(const model::StepResult result, models[m]->model->forward(plan));
      logits[m] = result.logits;
    }
    for (size_t r = 0; r < rows.logits_of.size(); ++r) {
      for (size_t m = 0; m < models.size(); ++m) {
        of_position[m] =
            LogitsRow(logits[m].row(static_cast<int64_t>(r)), static_cast<size_t>(logits[m].cols));
      }
      CHIMERE_CHECK_OK(use(at + rows.logits_of[r], of_position));
    }
    at += size;
  }
  return {};
}

Status predict_text(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                    int64_t context, const UseLogits& use,
                    const std::function<void(int64_t)>& progress) {
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t stride = std::max<int64_t>(1, context / 2);
  // `known` tokens have been predicted, or stand first.
  for (int64_t begin = 0, known = 1; known < n; begin += stride) {
    const int64_t end = std::min(n, begin + context);
    const auto window =
        tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const auto in_text = [&](int64_t position, std::span<const LogitsRow> rows) -> Status {
      return begin + position + 1 < end ? use(begin + position, rows) : Status();
    };
    CHIMERE_CHECK_OK(
        for_each_logits(models, window, model::RowClass::kChunk, known - 1 - begin, in_text));
    known = end;
    progress(known);
  }
  return {};
}

Result<double> surprise(LogitsRow logits, int32_t token) {
  CHIMERE_TRY(const auto largest, sampling::find_largest(logits));
  return sampling::summarise(logits, largest.value).log_sum - logits[static_cast<size_t>(token)];
}

Result<TokenText> read_tokens(const LoadedModel& loaded, const std::string& path) {
  CHIMERE_TRY(const std::string text, read_file(path));
  TokenText out{loaded.tokenizer->encode(text, false), text.size()};
  if (loaded.tokenizer->add_bos() && loaded.tokenizer->bos() >= 0) {
    out.tokens.insert(out.tokens.begin(), loaded.tokenizer->bos());
  }
  if (out.tokens.size() < 2)
    return invalid_argument("The file '" + path + "' is too short: two tokens are needed.");
  if (loaded.context < 2)
    return invalid_argument("A context of two tokens or more is needed (--ctx).");
  return out;
}

}  // namespace chimere::app
