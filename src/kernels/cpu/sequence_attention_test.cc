// attend_sequences, layer_norm and GELU on every instruction set against the oracle, bit for bit;
// the oracle against double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "base/fresh_seed.h"
#include "kernels/activation.h"
#include "kernels/cpu/ops_test_data.h"
#include "kernels/sequence_test_data.h"

namespace chimere::kernels::test {
namespace {

Matrix attended(Ops& ops, const SequenceCase& c) {
  SequenceCase own = c;
  own.shape.alibi_slopes = own.slopes.empty() ? nullptr : own.slopes.data();
  Matrix out(c.rows, int64_t{c.shape.heads.n_heads} * c.shape.heads.head_dim, NAN);
  ops.attend_sequences(whole_sequences(c.lengths).view(), own.shape, own.q.view(), own.k.view(),
                       own.v.view(), out.view());
  return out;
}

TEST(AttendSequences, EveryInstructionSetHasTheOraclesBits) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (int i = 0; i < 40; ++i) {
    const SequenceCase c(rng, i % 4 == 0 ? 200 : 40);
    const Matrix expected = attended(*ref, c);
    for (const CpuVariant& variant : cpu_variants()) {
      EXPECT_TRUE(same_bits(expected.data, attended(*variant.ops, c).data))
          << variant.name << ", head_dim " << c.shape.heads.head_dim << ", window "
          << c.shape.window;
    }
  }
}

TEST(AttendSequences, ASequenceHasTheSameBitsInAnyBatch) {
  Rng rng(fresh_seed());
  const auto& ops = cpu_variants().back().ops;
  for (int i = 0; i < 10; ++i) {
    SequenceCase all(rng, 150);
    const Matrix together = attended(*ops, all);
    int row = 0;
    for (const int n : all.lengths) {
      SequenceCase one = all;
      one.lengths = {n};
      one.rows = n;
      for (Matrix* m : {&one.q, &one.k, &one.v}) {
        m->data.erase(m->data.begin(), m->data.begin() + row * m->stride);
        m->rows = n;
        m->data.resize(static_cast<size_t>(n * m->stride));
      }
      const Matrix alone = attended(*ops, one);
      for (int r = 0; r < n; ++r) {
        EXPECT_TRUE(same_bits(alone.row(r), together.row(row + r), alone.cols));
      }
      row += n;
    }
  }
}

/// In double precision, without rotation.
TEST(AttendSequences, TheOracleAttendsOnBothSides) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (int i = 0; i < 20; ++i) {
    SequenceCase c(rng, 60);
    c.shape.heads.rope_dims = 0;
    const AttentionShape& a = c.shape.heads;
    const Matrix out = attended(*ref, c);
    int first = 0;
    for (const int n : c.lengths) {
      for (int r = 0; r < n; ++r) {
        for (int h = 0; h < a.n_heads; ++h) {
          const int kv = h / (a.n_heads / a.n_kv_heads) * a.head_dim;
          double total = 0;
          std::vector<double> sum(static_cast<size_t>(a.head_dim));
          for (int p = 0; p < n; ++p) {
            if (c.shape.window > 0 && std::abs(p - r) > c.shape.window) continue;
            double s = 0;
            for (int d = 0; d < a.head_dim; ++d) {
              s += static_cast<double>(c.q.row(first + r)[h * a.head_dim + d]) *
                   c.k.row(first + p)[kv + d];
            }
            s *= a.scale;
            if (!c.slopes.empty()) s -= static_cast<double>(c.slopes[h]) * std::abs(p - r);
            const double w = std::exp(s);
            total += w;
            for (int d = 0; d < a.head_dim; ++d) sum[d] += w * c.v.row(first + p)[kv + d];
          }
          for (int d = 0; d < a.head_dim; ++d) {
            EXPECT_NEAR(out.row(first + r)[h * a.head_dim + d], sum[d] / total, 2e-4);
          }
        }
      }
      first += n;
    }
  }
}

TEST(LayerNorm, EveryInstructionSetHasTheOraclesBits) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (int i = 0; i < 40; ++i) {
    const int64_t n = uniform_int(rng, 1, 900);
    const Matrix x(rng, uniform_int(rng, 1, 9), n, 3);
    const std::vector<float> weight = normal_floats(rng, n);
    const std::vector<float> bias = normal_floats(rng, n);
    const float* const b = i % 3 == 0 ? nullptr : bias.data();
    Matrix expected(x.rows, n, 0);
    ref->layer_norm(x.view(), weight.data(), b, 1e-5F, expected.view(), StepRows::kAll);
    for (int64_t r = 0; r < x.rows; ++r) {
      double mean = 0;
      double variance = 0;
      for (int64_t j = 0; j < n; ++j) mean += x.row(r)[j] / static_cast<double>(n);
      for (int64_t j = 0; j < n; ++j) {
        variance += (x.row(r)[j] - mean) * (x.row(r)[j] - mean) / static_cast<double>(n);
      }
      for (int64_t j = 0; j < n; ++j) {
        const double y = (x.row(r)[j] - mean) / std::sqrt(variance + 1e-5) * weight[j] +
                         (b != nullptr ? b[j] : 0);
        EXPECT_NEAR(expected.row(r)[j], y, n == 1 ? 1e-6 : 1e-3);
      }
    }
    for (const CpuVariant& variant : cpu_variants()) {
      Matrix y = x;  // in place
      for (int64_t r = 0; r < y.rows; ++r) {
        for (int64_t j = n; j < y.stride; ++j) y.data[r * y.stride + j] = 0;
      }
      variant.ops->layer_norm(y.view(), weight.data(), b, 1e-5F, y.view(), StepRows::kAll);
      EXPECT_TRUE(same_bits(expected.data, y.data)) << variant.name << ", n " << n;
    }
  }
}

TEST(Gelu, IsXTimesTheNormalDistribution) {
  for (double x = -14; x < 14; x += 0.0007) {
    const auto f = static_cast<float>(x);
    const double exact = 0.5 * f * std::erfc(-static_cast<double>(f) / std::sqrt(2.0));
    EXPECT_NEAR(activate(Activation::kGeluErf, f), exact, 2e-7 * std::max(1.0, std::abs(x))) << x;
  }
  EXPECT_EQ(activate(Activation::kGeluErf, INFINITY), INFINITY);
  EXPECT_EQ(activate(Activation::kGeluErf, -INFINITY), 0);
  EXPECT_TRUE(std::isnan(activate(Activation::kGeluErf, NAN)));
}

TEST(Gelu, EveryInstructionSetHasTheOraclesBits) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (int i = 0; i < 10; ++i) {
    const Matrix x(rng, 5, uniform_int(rng, 1, 200), 4);
    const Matrix up(rng, 5, x.cols, 4);
    Matrix expected = x;
    ref->activate(Activation::kGeluErf, expected.view(), i % 2 == 0 ? up.view() : ConstMatrixView(),
                  StepRows::kAll);
    for (const CpuVariant& variant : cpu_variants()) {
      Matrix y = x;
      variant.ops->activate(Activation::kGeluErf, y.view(),
                            i % 2 == 0 ? up.view() : ConstMatrixView(), StepRows::kAll);
      EXPECT_TRUE(same_bits(expected.data, y.data)) << variant.name;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::test
