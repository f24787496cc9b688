// The ternary formats and IQ2_K to IQ5_K with AVX2.
#include "kernels/cpu/table_formats.h"

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx2/bytes.h"
#include "kernels/cpu/avx2/integer_product.h"
#include "kernels/cpu/avx2/kernels.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

template <DType kType, class Block>
struct Ternary : Layout<kType, Block, 1> {
  static constexpr int kOffset = kTernaryOffsetBits;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 3;

  CHIMERE_INLINE static const Block& block(const uint8_t* p) {
    return *reinterpret_cast<const Block*>(p);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) { unpack_ternary(block(p), v); }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = _mm256_set1_ps(widen_f16(block(p).d));
  }
};

template <DType kType, class Block>
struct Table : Layout<kType, Block, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = true;

  CHIMERE_INLINE static const Block& block(const uint8_t* p) {
    return *reinterpret_cast<const Block*>(p);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) { unpack_values(block(p), v); }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    const __m128i bytes = scale_bytes(block(p));
    const __m256 d = _mm256_set1_ps(widen_f16(block(p).d));
    constexpr int kBias = TableScales<Block>::kBias;
    s[0] = _mm256_mul_ps(d, widen_bytes(bytes, kBias));
    s[1] = _mm256_mul_ps(d, widen_bytes(upper_8(bytes), kBias));
  }
};

}  // namespace

template <>
void product<DType::kTQ1_0>(const IntegerProduct& p) {
  integer_product<Ternary<DType::kTQ1_0, quant::BlockTq10>>(p);
}
template <>
void product<DType::kTQ2_0>(const IntegerProduct& p) {
  integer_product<Ternary<DType::kTQ2_0, quant::BlockTq20>>(p);
}
template <>
void product<DType::kIQ2_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ2_K, quant::BlockIq2K>>(p);
}
template <>
void product<DType::kIQ3_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ3_K, quant::BlockIq3K>>(p);
}
template <>
void product<DType::kIQ4_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ4_K, quant::BlockIq4K>>(p);
}
template <>
void product<DType::kIQ5_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ5_K, quant::BlockIq5K>>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
