// Norms, embedding, routing and elementwise steps on every instruction set against the oracle, bit
// for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/fresh_seed.h"
#include "kernels/batch_test_data.h"
#include "kernels/cpu/ops_test_data.h"
#include "kernels/routing_test_data.h"

namespace chimere::kernels::test {
namespace {

TEST(CpuOps, RmsNorm) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (const int cols : {1, 15, 16, 17, 100, 256, 2048, 2057}) {
    for (const int rows : {1, 5, 64}) {
      const Matrix x(rng, rows, cols, 3);
      const std::vector<float> weight = normal_floats(rng, cols);
      Matrix want(rows, cols, NAN);
      ref->rms_norm(x.view(), weight.data(), 1e-6F, want.view(), StepRows::kAll);
      for (const CpuVariant& variant : cpu_variants()) {
        Matrix in_place = x;
        variant.ops->rms_norm(in_place.view(), weight.data(), 1e-6F, in_place.view(),
                              StepRows::kAll);
        for (int r = 0; r < rows; ++r) {
          EXPECT_TRUE(same_bits(in_place.row(r), want.row(r), cols)) << variant.name << " " << cols;
        }
      }
    }
  }
}

TEST(CpuOps, Scale) {
  Rng rng(fresh_seed());
  const Matrix x(rng, 3, 100);
  for (const CpuVariant& variant : cpu_variants()) {
    Matrix got = x;
    variant.ops->scale(got.view(), 0.37F);
    for (int r = 0; r < 3; ++r) {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(got.row(r)[i], x.row(r)[i] * 0.37F);
      EXPECT_TRUE(same_bits(got.row(r) + 100, x.row(r) + 100, 3)) << "padding is kept";
    }
  }
}

TEST(CpuOps, GatedRmsNorm) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (const int head_dim : {8, 64, 128}) {
    for (const int rows : {1, 33}) {
      const int heads = uniform_int(rng, 1, 32);
      const Matrix x(rng, rows, static_cast<int64_t>(heads) * head_dim);
      const Matrix z(rng, rows, x.cols, 4);
      const std::vector<float> weight = normal_floats(rng, head_dim);
      Matrix want(rows, x.cols, NAN);
      ref->gated_rms_norm(x.view(), z.view(), weight.data(), head_dim, 1e-6F, want.view());
      for (const CpuVariant& variant : cpu_variants()) {
        Matrix got(rows, x.cols, NAN);
        variant.ops->gated_rms_norm(x.view(), z.view(), weight.data(), head_dim, 1e-6F, got.view());
        for (int r = 0; r < rows; ++r) {
          EXPECT_TRUE(same_bits(got.row(r), want.row(r), x.cols)) << variant.name;
        }
      }
    }
  }
}

TEST(CpuOps, Activate) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (const int cols : {1, 16, 100, 1024, 3000}) {
    for (const int rows : {1, 5, 33}) {
      const Matrix h(rng, rows, cols, 3);
      const Matrix up(rng, rows, cols, 3);
      for (const Activation f : {Activation::kSilu, Activation::kGelu, Activation::kReluSquared,
                                 Activation::kClampedSwiglu}) {
        for (const ConstMatrixView& factors : {up.view(), ConstMatrixView()}) {
          Matrix want = h;
          ref->activate(f, want.view(), factors, StepRows::kAll);
          for (const CpuVariant& variant : cpu_variants()) {
            Matrix got = h;
            variant.ops->activate(f, got.view(), factors, StepRows::kAll);
            EXPECT_TRUE(same_bits(got.data, want.data)) << variant.name << " " << cols;
          }
        }
      }
    }
  }
}

TEST(CpuOps, EmbedDecodesRowsOfATableAndCopiesVectors) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  const int cols = 512;
  const int vocabulary = 40;
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ6_K, DType::kIQ3_S}) {
    WeightView table = {type, vocabulary, cols, nullptr};
    std::vector<uint8_t> bytes(static_cast<size_t>(table.bytes()));
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(uniform_int(rng, 0, 255));
    table.data = bytes.data();
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(uniform_int(rng, -1, vocabulary / 4));
    Matrix vectors(rng, std::ranges::count(tokens, -1), cols);
    Matrix want(50, cols, 0);
    const PlacedTable placed(table);
    ref->embed(placed, tokens, vectors.view(), want.view());
    int64_t next = 0;
    for (int r = 0; r < 50; ++r) {
      if (tokens[r] < 0) {
        EXPECT_TRUE(same_bits(want.row(r), vectors.row(next++), cols));
      }
    }
    for (const CpuVariant& variant : cpu_variants()) {
      Matrix got(50, cols, 0);
      variant.ops->embed(placed, tokens, vectors.view(), got.view());
      EXPECT_TRUE(same_bits(got.data, want.data)) << variant.name;
    }
  }
}

TEST(CpuOps, RouteByAnyRoutingFunction) {
  Rng rng(fresh_seed());
  const auto ref = make_ref_ops();
  for (int round = 0; round < 200; ++round) {
    RoutingProblem p(rng, uniform_int(rng, 1, 20), 300, 16);
    if (!p.bias.empty()) p.spec.bias = p.bias.data();
    std::vector<int32_t> want_ids(p.places());
    std::vector<float> want_weights(p.places());
    ref->route(p.logits.view(), p.spec, {p.n_used, want_ids.data(), want_weights.data()});
    for (const CpuVariant& variant : cpu_variants()) {
      std::vector<int32_t> ids(p.places());
      std::vector<float> weights(p.places());
      variant.ops->route(p.logits.view(), p.spec, {p.n_used, ids.data(), weights.data()});
      EXPECT_EQ(ids, want_ids) << variant.name << ' ' << p;
      EXPECT_TRUE(same_bits(weights, want_weights)) << variant.name << ' ' << p;
    }
  }
}

// Routing must give valid ids for any logits, because ids index the table of experts.
TEST(CpuOps, RouteGivesValidIdsForNan) {
  constexpr RoutingSpec kInGroups = {
      .score = RouterScore::kSigmoid, .n_groups = 5, .n_groups_used = 2};
  for (const CpuVariant& variant : cpu_variants()) {
    for (const RoutingSpec& spec : {RoutingSpec{}, kInGroups}) {
      Matrix logits(1, 20, NAN);
      logits.data[7] = 1;
      std::vector<int32_t> ids(8, -1);
      std::vector<float> weights(8);
      variant.ops->route(logits.view(), spec, {8, ids.data(), weights.data()});
      std::ranges::sort(ids);
      EXPECT_TRUE(std::ranges::adjacent_find(ids) == ids.end());
      EXPECT_GE(ids.front(), 0);
      EXPECT_LT(ids.back(), 20);
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::test
