#include "kernels/cuda/norm.h"

#include <gtest/gtest.h>

#include "base/fresh_seed.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/norm_args.h"
#include "kernels/cuda/rounded_test_data.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using test::DeviceMatrix;
using test::OnDevice;
using test::RoundedMemory;

TEST(CudaNorm, RmsNormHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  const std::pair<int64_t, int64_t> shapes[] = {{3, 16},   {3, 48},    {3, 100}, {3, 2048},
                                                {3, 2600}, {65, 2600}, {3, 5000}};
  for (const auto& [rows, n] : shapes) {
    const Matrix x(rng, rows, n, 2);
    const std::vector<float> weight = kernels::test::normal_floats(rng, n);
    Matrix expected = x;
    ref::rms_norm(x.view(), weight.data(), 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix y(*device, x);
      rms_norm(device->stream(), y.view(), w.data(), 1e-6F, y.view(), {});
      EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data))
          << name << ", rows " << rows << ", n " << n;
    }
  }
}

TEST(CudaNorm, LayerNormHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  for (const int64_t n : {5, 16, 100, 384, 768, 2600}) {
    const Matrix x(rng, 3, n, 2);
    const std::vector<float> weight = kernels::test::normal_floats(rng, n);
    const std::vector<float> bias = kernels::test::normal_floats(rng, n);
    for (const bool biased : {false, true}) {
      Matrix expected = x;
      ref::layer_norm(x.view(), weight.data(), biased ? bias.data() : nullptr, 1e-6F,
                      expected.view());
      for (const auto& [name, device] : test::devices()) {
        const OnDevice<float> w(*device, weight);
        const OnDevice<float> b(*device, bias);
        const DeviceMatrix y(*device, x);
        layer_norm(device->stream(), y.view(), w.data(), biased ? b.data() : nullptr, 1e-6F,
                   y.view());
        EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data)) << name << ", n " << n;
      }
    }
  }
}

TEST(CudaNorm, GroupRmsNormHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  for (const int group : {16, 48, 100, 1024}) {
    const Matrix x(rng, 5, 3 * group, 2);
    const std::vector<float> weight = kernels::test::normal_floats(rng, x.cols);
    Matrix expected = x;
    make_ref_ops()->group_rms_norm(x.view(), weight.data(), group, 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix y(*device, x);
      group_rms_norm(device->stream(), y.view(), w.data(), group, 1e-6F, y.view());
      EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data)) << name << ", " << group;
    }
  }
}

TEST(CudaNorm, GatedGroupRmsNormHasTheBitsOfRefAndRounds) {
  kernels::test::Rng rng(fresh_seed());
  EXPECT_FALSE(takes_gated_group(48));
  EXPECT_FALSE(takes_gated_group(kMaxGatedGroup + 32));
  for (const int group : {32, 96, 352, kMaxGatedGroup}) {
    ASSERT_TRUE(takes_gated_group(group));
    const Matrix x(rng, 5, 3 * group, 2);
    const Matrix z(rng, 5, 3 * group);
    const std::vector<float> weight = kernels::test::normal_floats(rng, x.cols);
    Matrix expected = z;
    make_ref_ops()->gated_group_rms_norm(x.view(), weight.data(), group, 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix up(*device, x);
      for (const bool rounds : {false, true}) {
        const DeviceMatrix y(*device, z);
        const RoundedMemory rounded(*device, 5, z.cols);
        gated_group_rms_norm(device->stream(), up.view(), w.data(), group, 1e-6F, y.view(),
                             rounds ? rounded.rows() : RoundedRows{});
        EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data)) << name << ", " << group;
        if (rounds) rounded.expect(expected, name);
      }
    }
  }
}

TEST(CudaNorm, RmsNormAlsoRounds) {
  kernels::test::Rng rng(fresh_seed());
  for (const int64_t n : {320, 2112}) {
    const Matrix x(rng, 11, n, 2);
    const std::vector<float> weight = kernels::test::normal_floats(rng, n);
    Matrix expected = x;
    ref::rms_norm(x.view(), weight.data(), 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix y(*device, x);
      const RoundedMemory rounded(*device, 11, n);
      rms_norm(device->stream(), y.view(), w.data(), 1e-6F, y.view(), rounded.rows());
      rounded.expect(expected, name);
    }
  }
}

TEST(CudaNorm, GatedRmsNormAlsoRounds) {
  kernels::test::Rng rng(fresh_seed());
  const Matrix x(rng, 9, 3 * 64, 2);
  const Matrix z(rng, 9, 3 * 64, 3);
  const std::vector<float> weight = kernels::test::normal_floats(rng, 64);
  Matrix expected = x;
  ref::gated_rms_norm(x.view(), z.view(), weight.data(), 64, 1e-6F, expected.view());
  for (const auto& [name, device] : test::devices()) {
    const OnDevice<float> w(*device, weight);
    const DeviceMatrix gate(*device, z);
    const DeviceMatrix y(*device, x);
    const RoundedMemory rounded(*device, 9, 3 * 64);
    gated_rms_norm(device->stream(), y.view(), gate.view(), w.data(), 64, 1e-6F, y.view(),
                   rounded.rows());
    rounded.expect(expected, name);
  }
}

TEST(CudaNorm, GatedRmsNormHasTheBitsOfRef) {
  kernels::test::Rng rng(fresh_seed());
  for (const int head_dim : {16, 48, 128, 256}) {
    const Matrix x(rng, 5, int64_t{3} * head_dim, 2);
    const Matrix z(rng, 5, int64_t{3} * head_dim, 3);
    const std::vector<float> weight = kernels::test::normal_floats(rng, head_dim);
    Matrix expected = x;
    ref::gated_rms_norm(x.view(), z.view(), weight.data(), head_dim, 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix gate(*device, z);
      const DeviceMatrix y(*device, x);
      gated_rms_norm(device->stream(), y.view(), gate.view(), w.data(), head_dim, 1e-6F, y.view(),
                     {});
      EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data)) << name << ", " << head_dim;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
