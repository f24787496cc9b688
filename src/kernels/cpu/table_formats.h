// The unpacking of the ternary formats and of IQ2_K to IQ5_K, which the AVX2 and AVX-512 kernels
// share: 256 elements in natural order as eight vectors of 32 bytes. Included by files that are
// compiled for one instruction set, hence the unnamed namespace and forced inlining.
#ifndef CHIMERE_KERNELS_CPU_TABLE_FORMATS_H_
#define CHIMERE_KERNELS_CPU_TABLE_FORMATS_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/codebook_tables.h"
#include "kernels/cpu/integer_format.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu {
namespace {

/// The first digits of base-3 fractions plus 1, which are the integers of rule 4 plus 2: a byte q
/// has the digit floor(3 q / 256).
CHIMERE_INLINE __m256i ternary_plus_2(__m256i q) {
  const auto at_least = [q](int bound) {  // -1 where it holds
    return _mm256_cmpeq_epi8(_mm256_max_epu8(q, _mm256_set1_epi8(static_cast<char>(bound))), q);
  };
  return _mm256_sub_epi8(_mm256_sub_epi8(_mm256_set1_epi8(1), at_least(86)), at_least(171));
}

CHIMERE_INLINE __m128i three_times(__m128i q) { return _mm_add_epi8(q, _mm_add_epi8(q, q)); }

inline constexpr int kTernaryOffsetBits = 1;

CHIMERE_INLINE void unpack_ternary(const quant::BlockTq10& b, __m256i v[8]) {
  __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b.qs));
  for (int n = 0; n < 5; ++n) {
    v[n] = ternary_plus_2(q);
    q = _mm256_add_epi8(q, _mm256_add_epi8(q, q));
  }
  // 16 bytes of five digits, and four bytes of four.
  __m128i r[6];
  r[0] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b.qs + 32));
  for (int n = 1; n < 5; ++n) r[n] = three_times(r[n - 1]);
  const __m128i first = _mm_set1_epi32(load<int32_t>(b.qh));
  const __m128i second = three_times(first);
  const __m128i third = three_times(second);
  const __m128i fourth = three_times(third);
  r[5] = _mm_unpacklo_epi64(_mm_unpacklo_epi32(first, second), _mm_unpacklo_epi32(third, fourth));
  for (int i = 0; i < 3; ++i) v[5 + i] = ternary_plus_2(_mm256_set_m128i(r[2 * i + 1], r[2 * i]));
}

/// Bits 2 k and 2 k + 1 of 32 bytes are elements 32 k .. of 128.
CHIMERE_INLINE void unpack_pairs(const uint8_t* qs, __m256i v[8]) {
  for (int half = 0; half < 2; ++half) {
    const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(qs + 32 * half));
    for (int k = 0; k < 4; ++k) {
      v[4 * half + k] = _mm256_and_si256(_mm256_srli_epi16(q, 2 * k), _mm256_set1_epi8(3));
    }
  }
}

CHIMERE_INLINE void unpack_ternary(const quant::BlockTq20& b, __m256i v[8]) {
  unpack_pairs(b.qs, v);
  for (int i = 0; i < 8; ++i) v[i] = _mm256_add_epi8(v[i], _mm256_set1_epi8(1));
}

/// Adds 2^kTo to the elements whose bit is set: bit i of byte l belongs to element 32 i + l.
template <int kTo>
CHIMERE_INLINE void add_high_bits(const uint8_t* qh, __m256i v[8]) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(qh));
  for (int i = 0; i < 8; ++i) {
    const __m256i bit =
        i < kTo ? _mm256_slli_epi16(bytes, kTo - i) : _mm256_srli_epi16(bytes, i - kTo);
    v[i] = _mm256_or_si256(v[i], _mm256_and_si256(bit, _mm256_set1_epi8(1 << kTo)));
  }
}

CHIMERE_INLINE __m256i table_of(const int8_t* t) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(t)));
}

/// Adds `shift` to the sub-blocks of 16 whose bit of `extra` is set.
CHIMERE_INLINE void add_shifts(uint16_t extra, int shift, __m256i v[8]) {
  const __m128i byte_of = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m128i bit_of = _mm_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m128i bits = _mm_shuffle_epi8(_mm_set1_epi16(static_cast<int16_t>(extra)), byte_of);
  const __m128i set = _mm_cmpeq_epi8(_mm_and_si128(bits, bit_of), bit_of);
  const __m256i shifts =
      _mm256_broadcastsi128_si256(_mm_and_si128(set, _mm_set1_epi8(static_cast<char>(shift))));
  const __m256i halves = _mm256_set_m128i(_mm_set1_epi8(1), _mm_setzero_si128());
  for (int i = 0; i < 8; ++i) {
    const __m256i which = _mm256_add_epi8(halves, _mm256_set1_epi8(static_cast<char>(2 * i)));
    v[i] = _mm256_add_epi8(v[i], _mm256_shuffle_epi8(shifts, which));
  }
}

CHIMERE_INLINE void look_up(const int8_t* table, __m256i v[8]) {
  const __m256i values = table_of(table);
  for (int i = 0; i < 8; ++i) v[i] = _mm256_shuffle_epi8(values, v[i]);
}

CHIMERE_INLINE void unpack_values(const quant::BlockIq2K& b, __m256i v[8]) {
  unpack_pairs(b.qs, v);
  look_up(kIq2KTable.entry, v);
  add_shifts(b.extra, quant::kIq2KShift, v);
}

CHIMERE_INLINE void unpack_values(const quant::BlockIq3K& b, __m256i v[8]) {
  unpack_pairs(b.qs, v);
  add_high_bits<2>(b.qh, v);
  look_up(kIq3KTable.entry, v);
  add_shifts(b.extra, quant::kIq3KShift, v);
}

CHIMERE_INLINE void unpack_values(const quant::BlockIq4K& b, __m256i v[8]) {
  const __m256i low = _mm256_set1_epi8(15);
  for (int i = 0; i < 8; ++i) {
    const __m128i q = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b.qs + 16 * i));
    v[i] = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), low);
  }
  look_up(kIq4Values.entry, v);
  add_shifts(b.extra, quant::kIq4KShift, v);
}

CHIMERE_INLINE void unpack_values(const quant::BlockIq5K& b, __m256i v[8]) {
  const __m256i low = _mm256_set1_epi8(15);
  for (int i = 0; i < 4; ++i) {
    const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b.qs + 32 * i));
    v[2 * i] = _mm256_and_si256(q, low);
    v[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(q, 4), low);
  }
  const __m256i fifth = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b.qh));
  const __m256i first = table_of(kIq5KTable.entry);
  const __m256i second = table_of(kIq5KTable.entry + 16);
  for (int i = 0; i < 8; ++i) {
    // blendv reads the top bit of each byte.
    const __m256i use_second = _mm256_slli_epi16(fifth, 7 - i);
    v[i] = _mm256_blendv_epi8(_mm256_shuffle_epi8(first, v[i]), _mm256_shuffle_epi8(second, v[i]),
                              use_second);
  }
  add_shifts(b.extra, quant::kIq5KShift, v);
}

/// The sixteen scales as unsigned bytes, larger by kBias.
template <class Block>
struct TableScales {
  static constexpr int kBias = 32;
};
template <>
struct TableScales<quant::BlockIq2K> {
  static constexpr int kBias = 8;
};

CHIMERE_INLINE __m128i scale_bytes(const quant::BlockIq2K& b) { return nibbles_as_bytes(b.scales); }

CHIMERE_INLINE __m128i scale_bytes(const quant::BlockIq3K& b) {
  const __m128i nibbles = nibbles_as_bytes(b.scales_l);
  const __m128i odd = _mm_add_epi8(_mm_add_epi8(nibbles, nibbles), _mm_set1_epi8(1));
  const __m128i byte_of = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const __m128i bit_of = _mm_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m128i bits = _mm_shuffle_epi8(_mm_set1_epi16(static_cast<int16_t>(b.scales_h)), byte_of);
  const __m128i negative = _mm_cmpeq_epi8(_mm_and_si128(bits, bit_of), bit_of);
  return _mm_add_epi8(_mm_sub_epi8(_mm_xor_si128(odd, negative), negative), _mm_set1_epi8(32));
}

/// IQ4_K and IQ5_K: byte s / 4 of scales_h has the high bits of scale s in bits 2 (s % 4).
template <class Block>
CHIMERE_INLINE __m128i scale_bytes(const Block& b) {
  const __m128i byte_of = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const __m128i high = _mm_shuffle_epi8(_mm_set1_epi32(load<int32_t>(b.scales_h)), byte_of);
  const auto of = [](int place) { return _mm_set1_epi32(0x30 << (8 * place)); };
  const __m128i top = _mm_or_si128(
      _mm_or_si128(_mm_and_si128(_mm_slli_epi16(high, 4), of(0)),
                   _mm_and_si128(_mm_slli_epi16(high, 2), of(1))),
      _mm_or_si128(_mm_and_si128(high, of(2)), _mm_and_si128(_mm_srli_epi16(high, 2), of(3))));
  return _mm_or_si128(nibbles_as_bytes(b.scales_l), top);
}

}  // namespace
}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_TABLE_FORMATS_H_
