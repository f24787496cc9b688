// The oracle against the defining formulas in double. Tolerances are bounds of f32 rounding, u =
// 2^-24, derived beside each test.
#include "kernels/ref/vector_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/batch_test_data.h"

namespace chimere::kernels::test {
namespace {

constexpr double kU = 0x1p-24;
using Doubles = std::vector<double>;

double silu_of(double x) { return x / (1 + std::exp(-x)); }

Doubles rms_normalised(const float* x, const float* weight, int n, double eps) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  Doubles y;
  for (int i = 0; i < n; ++i) y.push_back(x[i] / std::sqrt(sum / n + eps) * weight[i]);
  return y;
}

TEST(Oracle, Norms) {
  Rng rng(fresh_seed());
  for (const int n : {16, 100, 256, 2048}) {
    const Matrix x(rng, 3, n);
    const Matrix z(rng, 3, n, 3);
    const std::vector<float> weight = normal_floats(rng, n);
    Matrix y(3, n, NAN);
    Matrix gated(3, n, NAN);
    ref::rms_norm(x.view(), weight.data(), 1e-6F, y.view());
    ref::gated_rms_norm(x.view(), z.view(), weight.data(), n, 1e-6F, gated.view());
    // A sum of squares in 16 chains of n / 16 has a relative error of (n / 16 + 5) u, its root half
    // of it; 6 more roundings follow, and silu's 3 units in the last place.
    const double tolerance = (n / 32.0 + 16) * kU;
    for (int r = 0; r < 3; ++r) {
      const Doubles want = rms_normalised(x.row(r), weight.data(), n, 1e-6);
      for (int i = 0; i < n; ++i) {
        EXPECT_NEAR(y.row(r)[i], want[i], std::fabs(want[i]) * tolerance);
        const double g = want[i] * silu_of(z.row(r)[i]);
        EXPECT_NEAR(gated.row(r)[i], g, std::fabs(g) * tolerance);
      }
    }
  }
}

TEST(Oracle, ConvolutionKeepsAWindowAndNormalisesHeads) {
  Rng rng(fresh_seed());
  GdnShape s;
  s.n_k_heads = 2;
  s.n_v_heads = 4;
  s.head_dim = 32;
  const int rows = 9;
  SequenceSpec spec;
  spec.slices = {{RowClass::kPrefill, 4}, {RowClass::kDecode, 5}};
  spec.write_slots = {-1, -1, -1, 1, -1, 2, -1, -1, 0};
  const int channels = s.conv_dim();
  const Matrix input(rng, rows, channels);
  const std::vector<float> weight = normal_floats(rng, static_cast<int64_t>(channels) * 4);
  std::vector<float> state = normal_floats(rng, 3 * s.conv_state_floats());
  const std::vector<float> before = state;
  Matrix y = input;
  ref::gdn_conv(Batch({spec}).view(), s, weight.data(), 1e-6F,
                {state.data(), s.conv_state_floats()}, y.view());
  auto input_at = [&](int r, int c) {
    return r >= 0 ? input.row(r)[c] : before[(r + 3) * channels + c];
  };
  for (int r = 0; r < rows; ++r) {
    Doubles x(channels);
    for (int c = 0; c < channels; ++c) {
      double sum = 0;
      for (int t = 0; t < 4; ++t)
        sum += static_cast<double>(weight[c * 4 + t]) * input_at(r - 3 + t, c);
      x[c] = silu_of(sum);
    }
    for (int h = 0; h < 2 * s.n_k_heads; ++h) {
      double sum = 0;
      for (int i = 0; i < 32; ++i) sum += x[h * 32 + i] * x[h * 32 + i];
      for (int i = 0; i < 32; ++i) x[h * 32 + i] /= std::sqrt(sum + 1e-6);
    }
    // Four products of magnitude up to about 20, each rounded: 4 · 20 u, and silu's slope is
    // below 1.1.
    for (int c = 0; c < channels; ++c) EXPECT_NEAR(y.row(r)[c], x[c], 100 * kU) << r << " " << c;
    const int32_t slot = spec.write_slots[r];
    if (slot < 0) continue;
    for (int t = 0; t < 3; ++t) {
      for (int c = 0; c < channels; ++c) {
        EXPECT_EQ(state[slot * s.conv_state_floats() + t * channels + c], input_at(r - 2 + t, c));
      }
    }
  }
}

// The shapes of a 35B-A3B model: 30 delta nets and the hidden state of an MTP head.
TEST(Oracle, AKeptRowTakesAtMostTwoMebibytes) {
  GdnShape s;
  s.n_k_heads = 16;
  s.n_v_heads = 32;
  s.head_dim = 128;
  const int64_t bytes = 4 * (30 * (s.conv_row_floats() + s.scan_row_floats()) + 2048);
  EXPECT_LE(bytes, int64_t{2} << 20);
  EXPECT_LE(16 * 8 * bytes, int64_t{256} << 20);
}

// A row that is kept and folded leaves the state that it would have written; the state that is read
// stays as it is if it goes to another slot.
TEST(Oracle, FoldedRowsLeaveTheStateOfComputedRows) {
  Rng rng(fresh_seed());
  GdnShape s;
  s.n_k_heads = 2;
  s.n_v_heads = 4;
  s.head_dim = 32;
  s.tiled_heads = uniform_int(rng, 0, 1) == 0;
  constexpr int kRows = 5;
  const Matrix qkv(rng, kRows, s.conv_dim());
  const Matrix alpha(rng, kRows, 4, 2);
  const Matrix beta(rng, kRows, 4, 2);
  const std::vector<float> a = {-1, -0.5F, -0.01F, -3};
  const std::vector<float> dt_bias = normal_floats(rng, 4);
  const std::vector<float> weight = normal_floats(rng, int64_t{4} * s.conv_dim());
  const int64_t stride = s.scan_state_floats() + s.conv_state_floats();
  std::vector<float> scan_state = normal_floats(rng, 3 * stride);
  std::vector<float> conv_state = normal_floats(rng, 3 * stride);
  const int64_t row_stride = s.conv_row_floats() + s.scan_row_floats();
  std::vector<float> scan_rows(kRows * row_stride);
  std::vector<float> conv_rows(kRows * row_stride);
  Matrix out(kRows, s.value_dim(), NAN);
  const auto run = [&](const SequenceSpec& spec) {
    Matrix x = qkv;
    const Batch batch({spec});
    ref::gdn_conv(batch.view(), s, weight.data(), 1e-6F,
                  {conv_state.data(), stride, conv_rows.data(), row_stride}, x.view());
    ref::gdn_scan(batch.view(), s, x.view(), alpha.view(), beta.view(), a.data(), dt_bias.data(),
                  {scan_state.data(), stride, scan_rows.data(), row_stride}, out.view());
  };
  SequenceSpec spec;
  spec.slices = {{RowClass::kDecode, kRows}};
  spec.write_slots = {-1, -1, 1, -1, -1};
  spec.keep_rows = {4, 0, 2, 1, 3};
  run(spec);
  SequenceSpec next;
  next.slices = {{RowClass::kDecode, 1}};
  next.write_slots = {-1};
  next.fold_from = 0;
  next.read_slot = 2;
  next.unfolded = {4, 0, 2};  // the first three rows
  const std::vector<float> before = scan_state;
  run(next);
  EXPECT_TRUE(kernels::test::same_bits(scan_state.data() + 2 * stride, scan_state.data() + stride,
                                       s.scan_state_floats()));
  EXPECT_TRUE(kernels::test::same_bits(conv_state.data() + 2 * stride, conv_state.data() + stride,
                                       s.conv_state_floats()));
  EXPECT_TRUE(kernels::test::same_bits(scan_state.data(), before.data(), 2 * stride));
}

/// The recurrence of api.h in double, for one v head.
struct Recurrence {
  int n;
  Doubles state;
  double largest = 0;  ///< the largest norm of a state's column, plus the largest |v|

  void row(const float* q, const float* k, const float* v, double log_decay, double beta,
           Doubles& out) {
    for (double& s : state) s *= std::exp(log_decay);
    out.assign(n, 0);
    for (int j = 0; j < n; ++j) {
      double kept = 0;
      for (int i = 0; i < n; ++i) kept += k[i] * state[i * n + j];
      const double delta = beta * (v[j] - kept);
      double norm = 0;
      for (int i = 0; i < n; ++i) {
        double& s = state[i * n + j];
        s += k[i] * delta;
        out[j] += q[i] / std::sqrt(static_cast<double>(n)) * s;
        norm += s * s;
      }
      largest = std::max(largest, std::sqrt(norm) + std::fabs(v[j]));
    }
  }
};

void check_scan(Rng& rng, int head_dim, RowClass row_class, int slices, int rows_of_slice,
                float decay_scale) {
  GdnShape s;
  s.n_k_heads = 2;
  s.n_v_heads = 4;
  s.head_dim = head_dim;
  s.tiled_heads = uniform_int(rng, 0, 1) == 0;
  SequenceSpec spec;
  for (int i = 0; i < slices; ++i) spec.slices.emplace_back(row_class, rows_of_slice);
  const int rows = spec.rows();
  spec.write_slots.assign(rows, -1);
  spec.write_slots.back() = 0;
  Matrix qkv(rng, rows, s.conv_dim());
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < 4; ++h) {
      float* x = qkv.data.data() + r * qkv.stride + h * head_dim;
      const float norm = std::sqrt(ref::dot16(x, x, head_dim));
      for (int i = 0; i < head_dim; ++i) x[i] /= norm;
    }
  }
  const Matrix alpha(rng, rows, 4, 2);
  const Matrix beta(rng, rows, 4, 2);
  const std::vector<float> a = {-decay_scale, -0.1F * decay_scale, -0.01F, 0};
  const std::vector<float> dt_bias = normal_floats(rng, 4);
  std::vector<float> state = normal_floats(rng, s.scan_state_floats());
  const std::vector<float> before = state;
  Matrix out(rows, s.value_dim(), NAN);
  ref::gdn_scan(Batch({spec}).view(), s, qkv.view(), alpha.view(), beta.view(), a.data(),
                dt_bias.data(), {state.data(), s.scan_state_floats()}, out.view());
  for (int h = 0; h < 4; ++h) {
    const int kh = s.tiled_heads ? h % 2 : h / 2;
    Recurrence truth = {head_dim, {}, 0};
    truth.state.assign(before.begin() + h * head_dim * head_dim,
                       before.begin() + (h + 1) * head_dim * head_dim);
    std::vector<Doubles> want(rows);
    for (int r = 0; r < rows; ++r) {
      const double dt = static_cast<double>(alpha.row(r)[h]) + dt_bias[h];
      const float* q = qkv.row(r) + kh * head_dim;
      truth.row(q, q + s.key_dim(), qkv.row(r) + 2 * s.key_dim() + h * head_dim,
                a[h] * std::log1p(std::exp(dt)), 1 / (1 + std::exp(-beta.row(r)[h])), want[r]);
    }
    // A row's update maps the state by I − β k kᵀ times the decay, which does not expand errors
    // (|k| = 1), and adds an error of its own of at most (n + rows + 8) u times a column's norm: a
    // chain of n products, in the chunk form another of up to `rows`, and the gates' few units (a
    // cumulated log decay x has error rows · u · x, but x e^-x < 1). Rows add up.
    const double tolerance = rows * (head_dim + rows_of_slice + 8.0) * kU * truth.largest;
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < head_dim; ++j) {
        ASSERT_NEAR(out.row(r)[h * head_dim + j], want[r][j], tolerance) << r << " head " << h;
      }
    }
    for (int i = 0; i < head_dim * head_dim; ++i) {
      ASSERT_NEAR(state[h * head_dim * head_dim + i], truth.state[i], tolerance) << "head " << h;
    }
  }
}

TEST(Oracle, ScanOfStepsIsTheRecurrence) {
  Rng rng(fresh_seed());
  check_scan(rng, 32, RowClass::kDecode, 2, 20, 1);
  check_scan(rng, 128, RowClass::kDecode, 1, 5, 1);
}

TEST(Oracle, ScanOfChunksIsTheRecurrence) {
  Rng rng(fresh_seed());
  check_scan(rng, 32, RowClass::kPrefill, 3, 64, 1);
  check_scan(rng, 64, RowClass::kPrefill, 2, 17, 1);
  check_scan(rng, 128, RowClass::kPrefill, 1, 64, 1);
  check_scan(rng, 32, RowClass::kPrefill, 5, 1, 1);
}

// Decays that underflow within a chunk, beside a head with hardly any decay.
TEST(Oracle, ScanOfChunksWithStrongDecay) {
  Rng rng(fresh_seed());
  check_scan(rng, 32, RowClass::kPrefill, 2, 64, 60);
}

TEST(Oracle, AttentionIsSoftmaxOverAllPositions) {
  Rng rng(fresh_seed());
  AttentionShape s;
  s.n_heads = 4;
  s.n_kv_heads = 2;
  s.head_dim = 32;
  s.rope_dims = 8;
  s.rope_base = 10000;
  s.scale = 1 / std::sqrt(32.0F);
  const int rows = 600;  // three splits
  SequenceSpec spec;
  spec.slices = {{RowClass::kDecode, rows}};
  spec.write_slots.assign(rows, -1);
  for (int p = 0; p * kKvPageTokens < rows; ++p) spec.pages.push_back(p);
  const Batch batch({spec});
  Matrix qg(rng, rows, 4 * 2 * 32, 2);
  const Matrix raw = qg;
  const Matrix k(rng, rows, 2 * 32);
  const Matrix v(rng, rows, 2 * 32);
  const std::vector<float> q_norm = normal_floats(rng, 32, 2);
  const std::vector<float> k_norm = normal_floats(rng, 32, 2);
  const int64_t page_bytes = ref::kv_page_bytes(s, DType::kF32, DType::kF32);
  std::vector<uint8_t> memory(spec.pages.size() * page_bytes, 0xFF);
  Matrix out(rows, 4 * 32, NAN);
  const auto ops = make_ref_ops();
  const KvView kv = {memory.data(), page_bytes, DType::kF32, DType::kF32};
  ops->qk_norm_rope_append(batch.view(), s, q_norm.data(), k_norm.data(), 1e-6F, qg.view(),
                           k.view(), v.view(), kv);
  ops->attend(batch.view(), s, qg.view(), kv, out.view());

  auto rotated = [&](const float* x, const std::vector<float>& weight, int position) {
    Doubles y = rms_normalised(x, weight.data(), 32, 1e-6);
    for (int i = 0; i < 4; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / 8);
      const double low = y[i];
      const double high = y[i + 4];
      y[i] = low * std::cos(angle) - high * std::sin(angle);
      y[i + 4] = high * std::cos(angle) + low * std::sin(angle);
    }
    return y;
  };
  for (const int r : {0, 1, 63, 64, 255, 256, 511, 599}) {
    for (int h = 0; h < 4; ++h) {
      const Doubles q = rotated(raw.row(r) + h * 64, q_norm, r);
      Doubles weights;
      double total = 0;
      double worst = 0;  // Σ |q k| scale
      double top = -1e300;
      for (int p = 0; p <= r; ++p) {
        const Doubles key = rotated(k.row(p) + h / 2 * 32, k_norm, p);
        double dot = 0;
        double magnitude = 0;
        for (int d = 0; d < 32; ++d) {
          dot += q[d] * key[d];
          magnitude += std::fabs(q[d] * key[d]);
        }
        weights.push_back(dot * s.scale);
        worst = std::max(worst, magnitude * s.scale);
        top = std::max(top, weights.back());
      }
      for (double& w : weights) total += w = std::exp(w - top);
      for (int d = 0; d < 32; ++d) {
        double sum = 0;
        double magnitude = 0;
        for (int p = 0; p <= r; ++p) {
          sum += weights[p] / total * v.row(p)[h / 2 * 32 + d];
          magnitude += weights[p] / total * std::fabs(v.row(p)[h / 2 * 32 + d]);
        }
        const double gate = 1 / (1 + std::exp(-raw.row(r)[h * 64 + 32 + d]));
        // A score is a chain of 32 products of elements with about 10 roundings each: its error is
        // at most 52 u Σ|q k|, twice that relative to a weight (its own and the sum's), plus the
        // chain over a split.
        const double tolerance = magnitude * gate * (2 * 52 * worst + 300) * kU;
        EXPECT_NEAR(out.row(r)[h * 32 + d], sum * gate, tolerance) << r << " " << h << " " << d;
      }
    }
  }
}

TEST(Oracle, RouteSharesTheSoftmaxOfTheChosen) {
  Rng rng(fresh_seed());
  const Matrix logits(rng, 5, 60, 3);
  std::vector<int32_t> ids(5 * 8);
  std::vector<float> weights(5 * 8);
  ref::route(logits.view(), {}, {8, ids.data(), weights.data()});
  for (int r = 0; r < 5; ++r) {
    std::vector<int> order(60);
    for (int e = 0; e < 60; ++e) order[e] = e;
    std::ranges::stable_sort(order,
                             [&](int a, int b) { return logits.row(r)[a] > logits.row(r)[b]; });
    double all = 0;
    for (const int e : order) all += std::exp(static_cast<double>(logits.row(r)[e]));
    double chosen = 0;
    for (int i = 0; i < 8; ++i)
      chosen += std::exp(static_cast<double>(logits.row(r)[order[i]])) / all;
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(ids[r * 8 + i], order[i]);
      const double p = std::exp(static_cast<double>(logits.row(r)[order[i]])) / all / chosen;
      // Rounding of the difference of logits (magnitude up to 20), exp, the sum of 8 and the
      // division.
      EXPECT_NEAR(weights[r * 8 + i], p, p * 60 * kU);
    }
  }
}

TEST(Oracle, RouteGivesTiesToTheLowerId) {
  Matrix logits(1, 6, 0);
  logits.data = {1, 3, 2, 3, 2, 3, 0, 0, 0};
  std::vector<int32_t> ids(4);
  std::vector<float> weights(4);
  ref::route(logits.view(), {}, {4, ids.data(), weights.data()});
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 5, 2}));
}

/// DeepSeek-V3's routing: sigmoids, a bias for the selection, the best groups by their two best.
TEST(Oracle, RouteByBiasedSigmoidsInGroups) {
  Rng rng(fresh_seed());
  constexpr int kExperts = 64;
  constexpr int kGroups = 8;
  constexpr int kSize = kExperts / kGroups;
  constexpr int kUsed = 6;
  const Matrix logits(rng, 20, kExperts, 2);
  const std::vector<float> bias = normal_floats(rng, kExperts, 0.2F);
  const RoutingSpec spec = {.score = RouterScore::kSigmoid,
                            .bias = bias.data(),
                            .n_groups = kGroups,
                            .n_groups_used = 3,
                            .scale = 2.5F};
  std::vector<int32_t> ids(20 * kUsed);
  std::vector<float> weights(20 * kUsed);
  ref::route(logits.view(), spec, {kUsed, ids.data(), weights.data()});
  for (int r = 0; r < 20; ++r) {
    Doubles score;
    Doubles biased;
    for (int e = 0; e < kExperts; ++e) {
      score.push_back(1 / (1 + std::exp(-double{logits.row(r)[e]})));
      biased.push_back(score[e] + bias[e]);
    }
    std::vector<std::pair<double, int>> groups;
    for (int g = 0; g < kGroups; ++g) {
      Doubles members(biased.begin() + g * kSize, biased.begin() + (g + 1) * kSize);
      std::ranges::sort(members, std::greater());
      groups.emplace_back(members[0] + members[1], g);
    }
    std::ranges::sort(groups, std::greater());
    std::vector<std::pair<double, int>> experts;
    for (int i = 0; i < 3; ++i) {
      for (int e = groups[i].second * kSize; e < (groups[i].second + 1) * kSize; ++e) {
        experts.emplace_back(biased[e], e);
      }
    }
    std::ranges::sort(experts, std::greater());
    double sum = 0;
    for (int rank = 0; rank < kUsed; ++rank) sum += score[experts[rank].second];
    for (int rank = 0; rank < kUsed; ++rank) {
      const int expert = experts[rank].second;
      EXPECT_EQ(ids[r * kUsed + rank], expert) << r << ' ' << rank;
      // A sigmoid errs by 3 units in the last place, the sum by as much and by kUsed roundings.
      const double want = score[expert] / sum * 2.5;
      EXPECT_NEAR(weights[r * kUsed + rank], want, want * (2 * 6 + kUsed + 2) * kU);
    }
  }
}

TEST(Oracle, RouteWithoutNormalisationGivesTheScores) {
  Rng rng(fresh_seed());
  const Matrix logits(rng, 5, 60, 3);
  std::vector<int32_t> ids(5 * 4);
  std::vector<float> weights(5 * 4);
  ref::route(logits.view(), {.normalise = false}, {4, ids.data(), weights.data()});
  for (int r = 0; r < 5; ++r) {
    double all = 0;
    for (int e = 0; e < 60; ++e) all += std::exp(double{logits.row(r)[e]});
    for (int i = r * 4; i < (r + 1) * 4; ++i) {
      const double x = logits.row(r)[ids[i]];
      // exp errs by 2.2 u and its argument by one rounding of at most 30 u; both twice.
      EXPECT_NEAR(weights[i], std::exp(x) / all, std::exp(x) / all * 80 * kU);
    }
  }
}

TEST(Oracle, KeepTopPSkipsUnneededExperts) {
  const auto ops = make_ref_ops();
  const std::vector<float> start = {0.5F, 0.25F, 0.125F, 0.125F};
  const struct {
    float top_p;
    std::vector<int32_t> ids;
    std::vector<float> weights;
  } cases[] = {{0.1F, {7, -1, -1, -1}, {1, 0, 0, 0}},
               {0.5F, {7, -1, -1, -1}, {1, 0, 0, 0}},
               {0.51F, {7, 2, -1, -1}, {0.5F / 0.75F, 0.25F / 0.75F, 0, 0}},
               {0.99F, {7, 2, 5, 0}, start}};
  for (const auto& c : cases) {
    // A prefill row, which keeps all experts, and a decode row.
    std::vector<int32_t> ids = {1, 2, 3, 4, 7, 2, 5, 0};
    std::vector<float> weights = start;
    weights.insert(weights.end(), start.begin(), start.end());
    ExpertUse use = {10, 40};
    const RowClass classes[] = {RowClass::kPrefill, RowClass::kDecode};
    ops->keep_top_p({4, ids.data(), weights.data()}, StepRows::kAll, classes, c.top_p, &use);
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.begin() + 4),
              (std::vector<int32_t>{1, 2, 3, 4}));
    EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 4), start);
    EXPECT_EQ(std::vector<int32_t>(ids.begin() + 4, ids.end()), c.ids) << c.top_p;
    EXPECT_EQ(std::vector<float>(weights.begin() + 4, weights.end()), c.weights) << c.top_p;
    EXPECT_EQ(use.rows, 11);
    EXPECT_EQ(use.experts, 40 + std::ranges::count_if(c.ids, [](int32_t id) { return id >= 0; }));
  }
}

/// Reference: sorts the whole row.
std::vector<TopLogit> largest(std::span<const float> row, int32_t count) {
  std::vector<TopLogit> all;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -INFINITY) all.push_back({row[i], static_cast<int32_t>(i)});
  }
  std::ranges::stable_sort(all, std::greater(), &TopLogit::value);
  all.resize(static_cast<size_t>(count), {-INFINITY, -1});
  return all;
}

/// The row with the tokens outside the set masked.
std::vector<float> within(const float* row, int64_t n, TokenMask mask) {
  std::vector<float> out(row, row + n);
  for (int32_t id = 0; id < n; ++id) {
    if (!contains(mask, id)) out[static_cast<size_t>(id)] = -INFINITY;
  }
  return out;
}

void expect_largest_within(const Matrix& logits, std::span<const uint32_t> masks, int32_t count) {
  std::vector<TopLogit> got(static_cast<size_t>(logits.rows * count));
  const TopLogits top = {got.data(), logits.rows, count};
  ref::top_logits(logits.view(), masks, top);
  const auto words = static_cast<size_t>(mask_words(logits.cols));
  for (int64_t r = 0; r < logits.rows; ++r) {
    const TokenMask mask = masks.subspan(static_cast<size_t>(r) * words, words);
    const std::vector<TopLogit> want =
        largest(within(logits.view().row(r), logits.cols, mask), count);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(top.row(r)[i].id, want[i].id) << "place " << i;
      ASSERT_EQ(top.row(r)[i].value, want[i].value) << "place " << i;
    }
  }
}

void expect_largest(const Matrix& logits, int32_t count) {
  std::vector<TopLogit> got(static_cast<size_t>(logits.rows * count));
  const TopLogits top = {got.data(), logits.rows, count};
  ref::top_logits(logits.view(), {}, top);
  for (int64_t r = 0; r < logits.rows; ++r) {
    const std::span<const TopLogit> row = top.row(r);
    const auto want = largest({logits.view().row(r), static_cast<size_t>(logits.cols)}, count);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(row[i].id, want[i].id) << "place " << i;
      ASSERT_EQ(row[i].value, want[i].value) << "place " << i;
    }
  }
}

TEST(Oracle, TopLogits) {
  Rng rng(fresh_seed());
  for (const int cols : {1, 63, 64, 1000, 8193}) {
    for (const int32_t count : {1, 2, 20, kMaxTopLogits}) {
      Matrix logits(rng, 3, cols, 4);
      expect_largest(logits, count);
      // Many equal values, both zeros among them, and masked ones.
      for (float& x : logits.data) x = std::rint(x / 3);
      for (size_t i = 0; i < logits.data.size(); i += 5) logits.data[i] = -INFINITY;
      expect_largest(logits, count);
      expect_largest(Matrix(2, cols, -INFINITY), count);
      std::vector<uint32_t> masks(static_cast<size_t>(logits.rows * mask_words(cols)));
      for (uint32_t& word : masks) word = static_cast<uint32_t>(rng());
      expect_largest_within(logits, masks, count);
      for (const float bad : {NAN, INFINITY}) {
        Matrix row(rng, 1, cols, 4);
        row.data[static_cast<size_t>(uniform_int(rng, 0, cols - 1))] = bad;
        std::vector<TopLogit> top(static_cast<size_t>(count));
        const std::vector<uint32_t> none(static_cast<size_t>(mask_words(cols)));
        for (const TokenMask mask : {TokenMask(), TokenMask(none)}) {
          ref::top_logits(row.view(), mask, {top.data(), 1, count});
          EXPECT_EQ(top.front().id, -1);
          EXPECT_EQ(top.front().value, INFINITY);
        }
      }
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::test
