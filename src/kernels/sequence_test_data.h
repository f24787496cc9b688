// Random sequences for the tests of Ops::attend_sequences and Ops::layer_norm.
#ifndef CHIMERE_KERNELS_SEQUENCE_TEST_DATA_H_
#define CHIMERE_KERNELS_SEQUENCE_TEST_DATA_H_

#include <cmath>
#include <vector>

#include "kernels/batch_test_data.h"

namespace chimere::kernels::test {

/// Whole sequences of these lengths, in chunks.
inline Batch whole_sequences(const std::vector<int>& lengths) {
  std::vector<SequenceSpec> specs;
  for (const int length : lengths) {
    SequenceSpec s;
    for (int at = 0; at < length; at += kMaxChunkRows) {
      s.slices.emplace_back(RowClass::kPrefill, std::min(kMaxChunkRows, length - at));
    }
    s.write_slots.assign(static_cast<size_t>(length), -1);
    s.visible.assign(static_cast<size_t>(length), length);
    specs.push_back(std::move(s));
  }
  return Batch(specs);
}

struct SequenceCase {
  SequenceAttentionShape shape;
  std::vector<float> slopes;
  std::vector<int> lengths;
  int rows = 0;
  Matrix q{0, 0, 0};
  Matrix k{0, 0, 0};
  Matrix v{0, 0, 0};

  explicit SequenceCase(Rng& rng, int longest) {
    constexpr int kDims[] = {16, 32, 48, 64, 96, 128};
    AttentionShape& a = shape.heads;
    a.gated = false;
    a.head_dim = kDims[uniform_int(rng, 0, 5)];
    a.n_kv_heads = uniform_int(rng, 1, 3);
    a.n_heads = a.n_kv_heads * uniform_int(rng, 1, 3);
    const int rope_dims[] = {a.head_dim, a.head_dim / 2, 0};
    a.rope_dims = rope_dims[uniform_int(rng, 0, 2)];
    a.rope_base = uniform_int(rng, 0, 1) > 0 ? 1e4F : 1.6e5F;
    a.scale = 1 / std::sqrt(static_cast<float>(a.head_dim));
    shape.window = uniform_int(rng, 0, 2) > 0 ? 0 : uniform_int(rng, 1, 40);
    if (uniform_int(rng, 0, 2) == 0) {
      for (int h = 0; h < a.n_heads; ++h) slopes.push_back(std::exp2(-static_cast<float>(h + 1)));
    }
    for (int i = uniform_int(rng, 1, 4); i > 0; --i)
      lengths.push_back(uniform_int(rng, 1, longest));
    for (const int n : lengths) rows += n;
    q = Matrix(rng, rows, int64_t{a.n_heads} * a.head_dim, 2);
    k = Matrix(rng, rows, int64_t{a.n_kv_heads} * a.head_dim, 2);
    v = Matrix(rng, rows, int64_t{a.n_kv_heads} * a.head_dim);
  }
};

}  // namespace chimere::kernels::test

#endif  // CHIMERE_KERNELS_SEQUENCE_TEST_DATA_H_
