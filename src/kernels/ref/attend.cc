#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention_rules.h"
#include "kernels/math.h"
#include "kernels/ref/kv_page.h"
#include "kernels/ref/kv_rounding.h"
#include "kernels/ref/vector_ops.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {
namespace {

/// A split's part of the softmax: maximum score, sum of weights, weighted sum of values.
struct Part {
  float max = 0;
  float sum = 0;
  std::vector<float> values;
};

/// `first`: the first of the positions.
Part attend_split(const std::vector<float>& scores, const std::vector<std::vector<float>>& values,
                  int64_t first, int n) {
  Part part = {scores[0], 0, std::vector<float>(n)};
  for (const float s : scores) part.max = s > part.max ? s : part.max;
  float sums[16] = {};
  for (size_t i = 0; i < scores.size(); ++i) {
    const float p = exp_f32(scores[i] - part.max);
    sums[(static_cast<size_t>(first) + i) % 16] += p;
    for (int d = 0; d < n; ++d) part.values[d] = std::fma(p, values[i][d], part.values[d]);
  }
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  part.sum = sums[0];
  return part;
}

void fold(const Part& next, Part& all) {
  const float max = next.max > all.max ? next.max : all.max;
  const float keep = exp_f32(all.max - max);
  const float take = exp_f32(next.max - max);
  all.max = max;
  all.sum = std::fma(next.sum, take, all.sum * keep);
  for (size_t d = 0; d < all.values.size(); ++d) {
    all.values[d] = std::fma(next.values[d], take, all.values[d] * keep);
  }
}

/// A logit without a value takes part in the softmax.
void fold_sink(float sink, Part& all) {
  const float max = sink > all.max ? sink : all.max;
  const float keep = exp_f32(all.max - max);
  all.sum = all.sum * keep + exp_f32(sink - max);
  for (float& v : all.values) v = v * keep;
}

}  // namespace

void attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg, KvView kv,
            MatrixView out) {
  const int n = shape.head_dim;
  const int group = shape.n_heads / shape.n_kv_heads;
  std::vector<float> key(n);
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int64_t positions = batch.visible(r);
    const int64_t first = batch.first_visible(r, shape.window);
    for (int h = 0; h < shape.n_heads; ++h) {
      const float* q = qg.row(r) + static_cast<int64_t>(h) * shape.query_stride();
      Part all;
      const int64_t first_split = first / kAttentionSplit * kAttentionSplit;
      for (int64_t split = first_split; split < positions; split += kAttentionSplit) {
        std::vector<float> scores;
        std::vector<std::vector<float>> values;
        const int64_t begin = std::max(split, first);
        const int64_t end = std::min<int64_t>(split + kAttentionSplit, positions);
        for (int64_t p = begin; p < end; ++p) {
          const KvSlot slot = kv_slot(batch, shape, kv, batch.row_sequence[r], p, h / group);
          quant::decode(kv.k_type, slot.k, key.data(), n);
          values.emplace_back(n);
          quant::decode(kv.v_type, slot.v, values.back().data(), n);
          float dot = 0;
          for (int d = 0; d < n; ++d) dot = std::fma(q[d], key[d], dot);
          scores.push_back(dot * shape.scale);
        }
        Part part = attend_split(scores, values, begin, n);
        if (split == first_split) {
          all = std::move(part);
        } else {
          fold(part, all);
        }
      }
      if (shape.sinks != nullptr) fold_sink(shape.sinks[h], all);
      float* o = out.row(r) + static_cast<int64_t>(h) * n;
      for (int d = 0; d < n; ++d) o[d] = all.values[d] / all.sum;
      if (dtype_info(kv.v_type).quantised) rotate_head(o, n);
      for (int d = 0; d < n && shape.gated; ++d) o[d] = o[d] * sigmoid(q[n + d]);
    }
  }
}

}  // namespace chimere::kernels::ref
