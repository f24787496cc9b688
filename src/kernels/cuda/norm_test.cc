#include "kernels/cuda/norm.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_test_data.h"
#include "kernels/ref/linear.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::cuda {
namespace {

using kernels::test::Matrix;
using test::DeviceMatrix;
using test::OnDevice;

TEST(CudaNorm, RmsNormHasTheBitsOfRef) {
  kernels::test::Rng rng(std::random_device{}());
  for (const int64_t n : {16, 48, 100, 2048}) {
    const Matrix x(rng, 3, n, 2);
    const std::vector<float> weight = kernels::test::normal_floats(rng, n);
    Matrix expected = x;
    ref::rms_norm(x.view(), weight.data(), 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix y(*device, x);
      rms_norm(device->stream(), y.view(), w.data(), 1e-6F, y.view(), {});
      EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data)) << name << ", n " << n;
    }
  }
}

TEST(CudaNorm, RoundsWhatItNormalises) {
  kernels::test::Rng rng(std::random_device{}());
  constexpr int64_t kN = 320;
  const Matrix x(rng, 3, kN, 2);
  const std::vector<float> weight = kernels::test::normal_floats(rng, kN);
  Matrix expected = x;
  ref::rms_norm(x.view(), weight.data(), 1e-6F, expected.view());
  for (const auto& [name, device] : test::devices()) {
    const OnDevice<float> w(*device, weight);
    const DeviceMatrix y(*device, x);
    const OnDevice<int8_t> q(*device, std::vector<int8_t>(3 * kN));
    const OnDevice<RoundedBlock> blocks(*device, std::vector<RoundedBlock>(3 * kN / 32));
    rms_norm(device->stream(), y.view(), w.data(), 1e-6F, y.view(), {q.data(), blocks.data()});
    const std::vector<int8_t> got = q.read();
    const std::vector<RoundedBlock> got_blocks = blocks.read();
    for (int64_t r = 0; r < 3; ++r) {
      const ref::Activations a = ref::round_activations(expected.row(r), kN);
      EXPECT_TRUE(std::equal(a.q.begin(), a.q.end(), got.begin() + r * kN)) << name;
      for (size_t b = 0; b < a.d.size(); ++b) {
        EXPECT_EQ(got_blocks[static_cast<size_t>(r) * a.d.size() + b].d, a.d[b]) << name;
      }
    }
  }
}

TEST(CudaNorm, GatedRmsNormHasTheBitsOfRef) {
  kernels::test::Rng rng(std::random_device{}());
  for (const int head_dim : {16, 48, 128}) {
    const Matrix x(rng, 5, int64_t{3} * head_dim, 2);
    const Matrix z(rng, 5, int64_t{3} * head_dim, 3);
    const std::vector<float> weight = kernels::test::normal_floats(rng, head_dim);
    Matrix expected = x;
    ref::gated_rms_norm(x.view(), z.view(), weight.data(), head_dim, 1e-6F, expected.view());
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<float> w(*device, weight);
      const DeviceMatrix gate(*device, z);
      const DeviceMatrix y(*device, x);
      gated_rms_norm(device->stream(), y.view(), gate.view(), w.data(), head_dim, 1e-6F, y.view());
      EXPECT_TRUE(kernels::test::same_bits(y.read(), expected.data)) << name << ", " << head_dim;
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
