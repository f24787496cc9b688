// Random weights, activations and routings for the tests of matrix products.
#ifndef CHIMERE_KERNELS_CPU_LINEAR_TEST_DATA_H_
#define CHIMERE_KERNELS_CPU_LINEAR_TEST_DATA_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/api.h"
#include "quant/quant.h"
#include "tensor/dtype.h"

namespace chimere::kernels::test_data {

inline const std::vector<DType>& all_weight_types() {
  static const std::vector<DType> kTypes = {
      DType::kF32,     DType::kF16,   DType::kBF16,   DType::kQ4_0,    DType::kQ4_1,
      DType::kQ5_0,    DType::kQ5_1,  DType::kQ8_0,   DType::kQ2_K,    DType::kQ3_K,
      DType::kQ4_K,    DType::kQ5_K,  DType::kQ6_K,   DType::kIQ2_XXS, DType::kIQ2_XS,
      DType::kIQ3_XXS, DType::kIQ1_S, DType::kIQ4_NL, DType::kIQ3_S,   DType::kIQ2_S,
      DType::kIQ4_XS,  DType::kIQ1_M, DType::kMXFP4,  DType::kTQ1_0,   DType::kTQ2_0,
      DType::kIQ2_K,   DType::kIQ3_K, DType::kIQ4_K,  DType::kIQ5_K};
  return kTypes;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  float normal() { return normal_(engine_); }
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  uint64_t bits() { return engine_(); }

  std::vector<float> activations(int64_t rows, int64_t n) {
    std::vector<float> x(static_cast<size_t>(rows * n));
    for (float& v : x) v = normal();
    // Blocks of zeros, of tiny values and with outliers.
    for (int64_t i = 0; i + 32 <= rows * n; i += 32) {
      const int64_t kind = between(0, 30);
      if (kind == 0) std::fill_n(x.begin() + i, 32, 0.0F);
      if (kind == 1) std::fill_n(x.begin() + i, 32, 1e-35F);
      if (kind == 2) x[static_cast<size_t>(i + between(0, 31))] = 1000.0F * normal();
    }
    return x;
  }

  /// Random blocks. Any bytes are valid, but f16 scales are kept finite and of a realistic size.
  std::vector<uint8_t> weights(DType type, int64_t n_out, int64_t n_in) {
    std::vector<uint8_t> w(static_cast<size_t>(n_out * row_bytes(type, n_in)));
    const DTypeInfo& info = dtype_info(type);
    if (!info.quantised) {
      for (int64_t i = 0; i < n_out * n_in; ++i) {
        const float f = 0.05F * normal();
        const uint16_t h = type == DType::kF16 ? quant::f32_to_f16(f) : quant::f32_to_bf16(f);
        if (type == DType::kF32) {
          std::memcpy(w.data() + 4 * i, &f, 4);
        } else {
          std::memcpy(w.data() + 2 * i, &h, 2);
        }
      }
      return w;
    }
    for (uint8_t& b : w) b = static_cast<uint8_t>(bits());
    const auto block = static_cast<size_t>(info.block_bytes);
    for (size_t i = 0; i < w.size(); i += block) set_scales(type, w.data() + i);
    return w;
  }

 private:
  void set_f16(uint8_t* p) {
    const uint16_t h = quant::f32_to_f16(0.01F * normal());
    std::memcpy(p, &h, 2);
  }

  void set_scales(DType type, uint8_t* block) {
    switch (type) {
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        set_f16(block);
        set_f16(block + 2);
        break;
      case DType::kQ2_K:
        set_f16(block + 80);
        set_f16(block + 82);
        break;
      case DType::kTQ1_0:
        set_f16(block + 52);
        break;
      case DType::kTQ2_0:
        set_f16(block + 64);
        break;
      case DType::kQ3_K:
        set_f16(block + 108);
        break;
      case DType::kQ6_K:
        set_f16(block + 208);
        break;
      case DType::kIQ1_M:
        // The f16 scale is in the top nibbles of the four u16 at 48, most significant in the last.
        block[55] = static_cast<uint8_t>((block[55] & 15U) | 0x20U);
        break;
      case DType::kMXFP4:
        block[0] = static_cast<uint8_t>(between(118, 126));
        break;
      default:
        set_f16(block);
    }
  }

  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

}  // namespace chimere::kernels::test_data

#endif  // CHIMERE_KERNELS_CPU_LINEAR_TEST_DATA_H_
