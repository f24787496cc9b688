#include "runtime/prediction.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/chunking.h"
#include "sampling/log_softmax.h"
#include "text/builtin_templates.h"

namespace chimere::runtime {

Status for_each_logits(std::span<const LoadedModel* const> models, std::span<const int32_t> tokens,
                       int64_t decode_from, int64_t first, const UseLogits& use) {
  const std::vector<int32_t> message_starts = text::chatml_starts(*models[0]->tokenizer);
  std::vector<std::unique_ptr<state::SequenceState>> sequences;
  for (const LoadedModel* m : models) sequences.push_back(m->model->states().create_sequence());
  std::vector<engine::RequestAdapters> adapters;
  for (const LoadedModel* m : models) adapters.push_back(m->adapters->defaults());
  std::vector<ConstMatrixView> logits(models.size());
  std::vector<LogitsRow> of_position(models.size());
  const auto n = static_cast<int64_t>(tokens.size());
  const auto prompt = static_cast<size_t>(std::clamp<int64_t>(decode_from, 0, n));
  std::vector<int32_t> sizes = model::chunk_sizes(tokens.first(prompt), message_starts);
  const size_t chunks = sizes.size();
  for (int64_t i = static_cast<int64_t>(prompt); i < n; i += kernels::kMaxChunkRows) {
    sizes.push_back(static_cast<int32_t>(std::min<int64_t>(kernels::kMaxChunkRows, n - i)));
  }
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int32_t size = sizes[i];
    model::StepPlan plan;
    model::SequenceRows& rows = plan.sequences.emplace_back();
    rows.row_class = i < chunks ? model::RowClass::kPrefill : model::RowClass::kDecode;
    const auto piece = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
    rows.tokens.assign(piece.begin(), piece.end());
    if (i < chunks) rows.chunks = {size};
    for (int32_t r = 0; r < size; ++r) {
      if (at + r >= first) rows.logits_of.push_back(r);
    }
    for (size_t m = 0; m < models.size(); ++m) {
      rows.state = sequences[m].get();
      rows.adapters = adapters[m].uses;
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
  const bool as_decode =
      std::ranges::any_of(models, [](const LoadedModel* m) { return m->options.expert_top_p < 1; });
  // The first `known` tokens are done: predicted, or the first one.
  for (int64_t begin = 0, known = 1; known < n; begin += stride) {
    const int64_t end = std::min(n, begin + context);
    const auto window =
        tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const auto in_text = [&](int64_t position, std::span<const LogitsRow> rows) -> Status {
      return begin + position + 1 < end ? use(begin + position, rows) : Status();
    };
    const int64_t first = known - 1 - begin;
    CHIMERE_CHECK_OK(for_each_logits(models, window, as_decode ? first : end, first, in_text));
    known = end;
    progress(known);
  }
  return {};
}

Result<double> negative_log_likelihood(LogitsRow logits, int32_t token) {
  CHIMERE_TRY(const auto largest, sampling::find_largest(logits));
  return sampling::summarise(logits, largest.value).log_sum - logits[static_cast<size_t>(token)];
}

Result<TokenText> tokens_of_text(const LoadedModel& loaded, const std::string& text,
                                 const std::string& path) {
  TokenText out{loaded.tokenizer->encode_with_bos(text, false), text.size()};
  if (out.tokens.size() < 2) {
    return invalid_argument((path == "-" ? "Standard input" : "The file '" + path + "'") +
                            " is too short: two tokens are needed.");
  }
  if (loaded.context < 2)
    return invalid_argument("A context of two tokens or more is needed (--ctx).");
  return out;
}

}  // namespace chimere::runtime
