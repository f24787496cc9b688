// Matrix products in portable C++, for processors without AVX2 and as the simplest form of the
// tiling: a weight row is unpacked once for all activation rows.
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/integer_weights.h"

namespace chimere::kernels::cpu::generic {
namespace {

float tree_of_16(float s[kPartials]) {
  for (int half = kPartials / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) s[j] += s[j + half];
  }
  return s[0];
}

void store(float& y, float v, bool accumulate) { y = accumulate ? y + v : v; }

void round_block(const float* x, int64_t b, const RoundedRow& out) {
  uint32_t bits = 0;
  for (int i = 0; i < kActivationBlock; ++i) {
    uint32_t u;
    std::memcpy(&u, x + i, 4);
    bits = std::max(bits, u & 0x7FFFFFFFU);
  }
  float amax;
  std::memcpy(&amax, &bits, 4);
  const bool finite = bits < 0x7F800000U;
  const bool zero = !finite || amax < 0x1p-100F;
  const float d = !finite ? std::numeric_limits<float>::quiet_NaN()
                  : zero  ? 0.0F
                          : activation_scale(amax);
  const float id = zero ? 0.0F : 127.0F / amax;
  int32_t sums[2] = {0, 0};
  for (int i = 0; i < kActivationBlock; ++i) {
    const auto q = static_cast<int8_t>(zero ? 0.0F : std::nearbyint(x[i] * id));
    out.q[kActivationBlock * b + i] = q;
    sums[i / 16] += q;
  }
  out.d[b] = d;
  out.d_sum[b] = d * static_cast<float>(sums[0] + sums[1]);
  out.neg_sum32[b] = -(sums[0] + sums[1]);
  out.neg_sum16[2 * b] = -sums[0];
  out.neg_sum16[2 * b + 1] = -sums[1];
}

void round_activations(const float* x, int64_t n, const RoundedRow& out) {
  const int64_t end = padded(n);
  for (int64_t b = 0; b < n / kActivationBlock; ++b) round_block(x + kActivationBlock * b, b, out);
  const float zeros[kActivationBlock] = {};
  for (int64_t b = n / kActivationBlock; b < end / kActivationBlock; ++b) {
    round_block(zeros, b, out);
  }
  // No kernel here reads another order.
}

template <DType kType>
void integer_product(const IntegerProduct& p) {
  constexpr int kGroup = scale_group(kType);
  static_assert(kGroup > 0);
  auto* q = reinterpret_cast<int8_t*>(p.scratch);
  auto* s = reinterpret_cast<float*>(p.scratch + padded(p.n_in));
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): kGroup is not 0, see above
  float* m = s + padded(p.n_in) / kGroup;
  for (int64_t o = 0; o < p.n_out; ++o) {
    unpack_integer_weights(kType, p.w + o * p.w_stride, p.n_in, q, s, m);
    for (int64_t r = 0; r < p.n_rows; ++r) {
      const RoundedRow& x = p.x[r];
      float acc[kPartials] = {};
      for (int64_t g = 0; g < p.n_in / kGroup; ++g) {
        int32_t dot = 0;
        for (int64_t i = g * kGroup; i < (g + 1) * kGroup; ++i) dot += q[i] * x.q[i];
        const int64_t block = g * kGroup / kActivationBlock;
        float& a = acc[g % kPartials];
        a = std::fma(static_cast<float>(dot), s[g] * x.d[block], a);
        if constexpr (has_minimum(kType)) {
          const int32_t sum = kGroup == 32 ? -x.neg_sum32[g] : -x.neg_sum16[g];
          a = std::fma(-m[g], x.d[block] * static_cast<float>(sum), a);
        }
      }
      store(p.y[r][o], tree_of_16(acc), p.accumulate);
    }
  }
}

template <DType... kTypes>
MatmulKernels make_kernels(DTypeList<kTypes...> /*types*/) {
  MatmulKernels k;
  k.round = round_activations;
  ((k.integer[kernel_index(kTypes)] = integer_product<kTypes>), ...);
  k.f32 = product_f32;
  k.f16 = product_f16;
  k.bf16 = product_bf16;
  k.activate = activate;
  k.add_scaled = add_scaled;
  k.add_low_rank = add_low_rank;
  return k;
}

}  // namespace

const MatmulKernels& matmul_kernels() {
  static const MatmulKernels kKernels = make_kernels(IntegerTypes{});
  return kKernels;
}

}  // namespace chimere::kernels::cpu::generic
