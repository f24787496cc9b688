// The ternary formats and IQ2_K to IQ5_K with AVX-512 VNNI.
#include "kernels/cpu/table_formats.h"

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

CHIMERE_INLINE void join(const __m256i v[8], __m512i out[4]) {
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm512_inserti64x4(_mm512_castsi256_si512(v[2 * i]), v[2 * i + 1], 1);
  }
}

template <DType kType, class Block>
struct Ternary : Layout<kType, Block, 1> {
  static constexpr int kOffset = kTernaryOffsetBits;
  static constexpr ActivationOrder kOrder = ActivationOrder::kNatural;

  CHIMERE_INLINE static const Block& block(const uint8_t* p) {
    return *reinterpret_cast<const Block*>(p);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    __m256i halves[8];
    unpack_ternary(block(p), halves);
    join(halves, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    return _mm512_zextps256_ps512(_mm256_set1_ps(widen_f16(block(p).d)));
  }
};

template <DType kType, class Block>
struct Table : Layout<kType, Block, 1> {
  static constexpr int kOffset = 7;
  static constexpr ActivationOrder kOrder = ActivationOrder::kNatural;

  CHIMERE_INLINE static const Block& block(const uint8_t* p) {
    return *reinterpret_cast<const Block*>(p);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    __m256i halves[8];
    unpack_values(block(p), halves);
    join(halves, v);
    for (int i = 0; i < 4; ++i) v[i] = _mm512_xor_si512(v[i], _mm512_set1_epi8(-128));
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const __m512i bytes = _mm512_cvtepu8_epi32(scale_bytes(block(p)));
    const __m512i s = _mm512_sub_epi32(bytes, _mm512_set1_epi32(TableScales<Block>::kBias));
    return _mm512_mul_ps(_mm512_set1_ps(widen_f16(block(p).d)), _mm512_cvtepi32_ps(s));
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

}  // namespace chimere::kernels::cpu::avx512
