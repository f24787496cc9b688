#include "model/step_buffers.h"

#include <algorithm>

namespace chimere::model {

StepBuffers lay_out_step(BufferLayout& at, const ModelSpec& model, const ModelWeights& weights,
                         int64_t rows, int64_t wanted) {
  StepBuffers step;
  step.chosen = at.take<int32_t>(kernels::kMaxChoices);
  step.all.x = at.matrix(rows, model.n_embd);
  step.wanted.x = at.matrix(wanted, model.n_embd);
  BufferLayout of_wanted = at;
  step.all.h = at.matrix(rows, model.n_embd);
  step.wanted.h = of_wanted.matrix(wanted, model.n_embd);
  at.skip_past(of_wanted);
  if (model.keeps_embedding) step.embedding = at.matrix(rows, model.n_embd);
  if (model.block_draft) step.context = at.matrix(rows, model.context_width());
  step.sub_layer = at;
  // A row may be requested more than once.
  const int64_t most = std::max(rows, wanted);
  weights.for_each_sub_layer([&](const SubLayer& part) {
    BufferLayout of_part = step.sub_layer;
    part.lay_out(of_part, most);
    at.skip_past(of_part);
  });
  if (model.block_draft) {
    BufferLayout of_context = step.sub_layer;
    weights.for_each_sub_layer(
        [&](const SubLayer& part) { part.lay_out_append(of_context, rows); });
    at.skip_past(of_context);
  }
  if (weights.mtp != nullptr) {
    step.mtp = weights.mtp->buffers(at, rows);
    step.mtp.h = step.all.h;
  }
  step.logits = at.matrix(wanted, model.n_outputs());
  step.top = at.take<kernels::TopLogit>(wanted * kernels::kMaxTopLogits);
  step.selected = at.take<float>(wanted * kernels::kMaxSelectedLogits);
  step.sums = at.take<kernels::LogSumExp>(wanted);
  return step;
}

int64_t step_buffer_bytes(const ModelSpec& model, const ModelWeights& weights, int64_t rows,
                          int64_t wanted) {
  BufferLayout measure;
  lay_out_step(measure, model, weights, rows, wanted);
  return measure.used();
}

}  // namespace chimere::model
