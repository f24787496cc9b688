#include "kernels/integer_weights.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/fresh_seed.h"
#include "kernels/cpu/linear_test_data.h"
#include "kernels/dot_rule.h"
#include "quant/quant.h"

namespace chimere::kernels {
namespace {

class IntegerWeights : public testing::TestWithParam<DType> {};

/// d times its integer scale is exact in f32, so the scales of rule 4 give the decoder's values.
TEST_P(IntegerWeights, AreTheDecodersValues) {
  const DType type = GetParam();
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  test_data::Random random(seed);
  const int64_t n = 256 * 64;
  const std::vector<uint8_t> row = random.weights(type, 1, n);
  const auto group = static_cast<size_t>(scale_group(type));
  std::vector<int8_t> q(static_cast<size_t>(n));
  std::vector<float> s(q.size() / group);
  std::vector<float> m(s.size());
  unpack_integer_weights(type, row.data(), n, q.data(), s.data(), m.data());
  std::vector<float> decoded(q.size());
  quant::decode(type, row.data(), decoded.data(), n);
  for (size_t i = 0; i < q.size(); ++i) {
    ASSERT_EQ(s[i / group] * static_cast<float>(q[i]) - m[i / group], decoded[i]) << i;
    if (!has_minimum(type)) {
      ASSERT_EQ(m[i / group], 0);
    }
  }
}

std::vector<DType> integer_types() {
  std::vector<DType> types;
  for (const DType t : test_data::all_weight_types()) {
    if (takes_integer_dot(t)) types.push_back(t);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, IntegerWeights, testing::ValuesIn(integer_types()),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(DotRule, NamesEveryQuantisedType) {
  for (const DType t : test_data::all_weight_types()) {
    EXPECT_EQ(takes_integer_dot(t), dtype_info(t).quantised) << dtype_name(t);
  }
}

}  // namespace
}  // namespace chimere::kernels
