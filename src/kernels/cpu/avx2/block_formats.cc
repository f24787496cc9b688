// The formats with blocks of 32, and IQ4_XS, which has nibbles like theirs, with AVX2.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx2/bytes.h"
#include "kernels/cpu/avx2/integer_product.h"
#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/codebook_tables.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

template <class Block>
CHIMERE_INLINE __m256 scales_of_eight(const Block* b) {
  return _mm256_cvtph_ps(eight_d(b));
}

/// For x = d q + m: scales d and minima -m.
template <class Block>
CHIMERE_INLINE void scales_minima_of_eight(const Block* b, __m256& s, __m256& m) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i split =
      _mm256_permute4x64_epi64(_mm256_shuffle_epi8(eight_dwords(b, sizeof(Block)), order), 0xD8);
  s = _mm256_cvtph_ps(_mm256_castsi256_si128(split));
  m = _mm256_xor_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(split, 1)), _mm256_set1_ps(-0.0F));
}

struct Q40 : Layout<DType::kQ4_0, quant::BlockQ4_0, 8> {
  static constexpr int kOffset = 3;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 15;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    for (int i = 0; i < 8; ++i) v[i] = nibbles_of(at(p)[i].qs);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = scales_of_eight(at(p));
  }
};

struct Q41 : Layout<DType::kQ4_1, quant::BlockQ4_1, 8> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 15;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    for (int i = 0; i < 8; ++i) v[i] = nibbles_of(at(p)[i].qs);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 m[2]) {
    scales_minima_of_eight(at(p), s[0], m[0]);
  }
};

/// Nibbles with the fifth bits of Q5_0 and Q5_1.
template <class Block>
CHIMERE_INLINE __m256i five_bits(const Block& b) {
  const __m256i fifth = _mm256_and_si256(bytes_of_mask(load<int32_t>(b.qh)), _mm256_set1_epi8(16));
  return _mm256_or_si256(nibbles_of(b.qs), fifth);
}

struct Q50 : Layout<DType::kQ5_0, quant::BlockQ5_0, 8> {
  static constexpr int kOffset = 4;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 31;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    for (int i = 0; i < 8; ++i) v[i] = five_bits(at(p)[i]);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = scales_of_eight(at(p));
  }
};

struct Q51 : Layout<DType::kQ5_1, quant::BlockQ5_1, 8> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 31;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    for (int i = 0; i < 8; ++i) v[i] = five_bits(at(p)[i]);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 m[2]) {
    scales_minima_of_eight(at(p), s[0], m[0]);
  }
};

struct Q80 : Layout<DType::kQ8_0, quant::BlockQ8_0, 8> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    for (int i = 0; i < 8; ++i) v[i] = load_bytes(at(p)[i].qs);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = scales_of_eight(at(p));
  }
};

struct Mxfp4 : Layout<DType::kMXFP4, quant::BlockMxfp4, 8> {
  static constexpr int kOffset = kMxfp4OffsetBits;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 28;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const __m256i values = table_of_16(kMxfp4Bytes.entry);
    for (int i = 0; i < 8; ++i) v[i] = _mm256_shuffle_epi8(values, nibbles_of(at(p)[i].qs));
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = half_e8m0(eight_exponents(at(p)));
  }
};

struct Iq4Nl : Layout<DType::kIQ4_NL, quant::BlockIq4Nl, 8> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const __m256i values = table_of_16(kIq4Values.entry);
    for (int i = 0; i < 8; ++i) v[i] = _mm256_shuffle_epi8(values, nibbles_of(at(p)[i].qs));
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = scales_of_eight(at(p));
  }
};

struct Iq4Xs : Layout<DType::kIQ4_XS, quant::BlockIq4Xs, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const __m256i values = table_of_16(kIq4Values.entry);
    for (int i = 0; i < 8; ++i) {
      v[i] = _mm256_shuffle_epi8(values, nibbles_of(at(p)->qs + 16 * i));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] =
        _mm256_mul_ps(_mm256_set1_ps(widen_f16(at(p)->d)), widen_bytes(iq4_xs_scales(*at(p)), 32));
  }
};

}  // namespace

template <>
void product<DType::kQ4_0>(const IntegerProduct& p) {
  integer_product<Q40>(p);
}
template <>
void product<DType::kQ4_1>(const IntegerProduct& p) {
  integer_product<Q41>(p);
}
template <>
void product<DType::kQ5_0>(const IntegerProduct& p) {
  integer_product<Q50>(p);
}
template <>
void product<DType::kQ5_1>(const IntegerProduct& p) {
  integer_product<Q51>(p);
}
template <>
void product<DType::kQ8_0>(const IntegerProduct& p) {
  integer_product<Q80>(p);
}
template <>
void product<DType::kMXFP4>(const IntegerProduct& p) {
  integer_product<Mxfp4>(p);
}
template <>
void product<DType::kIQ4_NL>(const IntegerProduct& p) {
  integer_product<Iq4Nl>(p);
}
template <>
void product<DType::kIQ4_XS>(const IntegerProduct& p) {
  integer_product<Iq4Xs>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
