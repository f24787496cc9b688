#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {
namespace {

void rotate(float* x, int half, const float* cos_sin) {
  for (int i = 0; i < half; ++i) {
    const float c = cos_sin[i];
    const float s = cos_sin[half + i];
    const float low = x[i];
    const float high = x[half + i];
    x[i] = std::fma(low, c, -(high * s));
    x[half + i] = std::fma(high, c, low * s);
  }
}

void rotate_heads(MatrixView x, const AttentionShape& shape, int heads, const RopeTable& rope) {
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      rotate(x.row(r) + static_cast<int64_t>(h) * shape.head_dim, shape.rope_dims / 2, rope.row(r));
    }
  }
}

}  // namespace

void attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape,
                      const RopeTable& rope, MatrixView q, MatrixView k, ConstMatrixView v,
                      MatrixView out) {
  const AttentionShape& a = shape.heads;
  const int n = a.head_dim;
  if (a.rope_dims > 0) {
    rotate_heads(q, a, a.n_heads, rope);
    rotate_heads(k, a, a.n_kv_heads, rope);
  }
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int32_t position = batch.row_position[r];
    const int32_t all = batch.visible(r);
    const int64_t first_row = r - position;
    const int32_t begin = shape.window > 0 ? std::max(0, position - shape.window) : 0;
    const int32_t end = shape.window > 0 ? std::min(all, position + shape.window + 1) : all;
    for (int h = 0; h < a.n_heads; ++h) {
      const float* query = q.row(r) + static_cast<int64_t>(h) * n;
      const int64_t kv_head = static_cast<int64_t>(h / (a.n_heads / a.n_kv_heads)) * n;
      std::vector<float> scores;
      for (int32_t p = begin; p < end; ++p) {
        const float* key = k.row(first_row + p) + kv_head;
        float dot = 0;
        for (int d = 0; d < n; ++d) dot = std::fma(query[d], key[d], dot);
        float score = dot * a.scale;
        if (shape.alibi_slopes != nullptr) {
          score =
              std::fma(-shape.alibi_slopes[h], static_cast<float>(std::abs(position - p)), score);
        }
        scores.push_back(score);
      }
      float max = scores[0];
      for (const float s : scores) max = s > max ? s : max;
      float sums[16] = {};
      std::vector<float> values(n);
      for (int32_t p = begin; p < end; ++p) {
        const float w = exp_f32(scores[p - begin] - max);
        const float* value = v.row(first_row + p) + kv_head;
        sums[p % 16] += w;
        for (int d = 0; d < n; ++d) values[d] = std::fma(w, value[d], values[d]);
      }
      for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
      }
      float* o = out.row(r) + static_cast<int64_t>(h) * n;
      for (int d = 0; d < n; ++d) o[d] = values[d] / sums[0];
    }
  }
}

}  // namespace chimere::kernels::ref
