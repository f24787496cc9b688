// IQ3_S with VBMI and BITALG. The codebook of 512 entries of four values in 1, 3, .., 15 is kept in
// 16 registers as nibbles: two bytes an entry. Byte permutations look up 64 entries at once, so
// that 256 weights come out ordered by their place in the entry (RoundedRow::q_by_fours), with no
// gather.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/iq3_s_nibbles.h"
#include "kernels/cpu/avx512/kernels.h"
#include "quant/blocks.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Bytes of a table of 512 at 64 9-bit indices: 8 low bits in `low`, the ninth in `high`.
CHIMERE_INLINE __m512i look_up(const uint8_t* table, __m512i low, __mmask64 high) {
  __m512i t[8];
  for (int i = 0; i < 8; ++i) t[i] = _mm512_load_si512(table + 64 * i);
  const __mmask64 eighth = _mm512_movepi8_mask(low);
  const __m512i a = _mm512_mask_blend_epi8(eighth, _mm512_permutex2var_epi8(t[0], low, t[1]),
                                           _mm512_permutex2var_epi8(t[2], low, t[3]));
  const __m512i b = _mm512_mask_blend_epi8(eighth, _mm512_permutex2var_epi8(t[4], low, t[5]),
                                           _mm512_permutex2var_epi8(t[6], low, t[7]));
  return _mm512_mask_blend_epi8(high, a, b);
}

struct Iq3S {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockIq3S);
  static constexpr int kOffset = 4;
  static constexpr bool kMinimum = false;
  static constexpr bool kByFours = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const auto* b = reinterpret_cast<const quant::BlockIq3S*>(p);
    const auto* table = reinterpret_cast<const uint8_t*>(&kIq3SNibbles);
    uint64_t high;
    std::memcpy(&high, b->qh, 8);
    const __m512i low = load_bytes(b->qs);
    const __m512i first = look_up(table, low, high);
    const __m512i second = look_up(table + 512, low, high);
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i offset = _mm512_set1_epi8(1 << kOffset);
    const __m512i twice = _mm512_set1_epi8(2 << kOffset);
    // 0xEA: (a & b) | c, the magnitude plus 16.
    v[0] = _mm512_ternarylogic_epi64(first, nibble, offset, 0xEA);
    v[1] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(first, 4), nibble, offset, 0xEA);
    v[2] = _mm512_ternarylogic_epi64(second, nibble, offset, 0xEA);
    v[3] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(second, 4), nibble, offset, 0xEA);
    // Sign bits 32 l .. 32 l + 31 beside bytes 8 l .. 8 l + 7; those of place c are every fourth.
    const __m512i signs =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b->signs)));
    const __m512i fourth = _mm512_set1_epi64(0x1C1814100C080400);
    for (int c = 0; c < 4; ++c) {
      const __m512i bit = _mm512_add_epi8(fourth, _mm512_set1_epi8(static_cast<int8_t>(c)));
      const __mmask64 negative = _mm512_bitshuffle_epi64_mask(signs, bit);
      v[c] = _mm512_mask_sub_epi8(v[c], negative, twice, v[c]);
    }
  }

  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const auto* b = reinterpret_cast<const quant::BlockIq3S*>(p);
    uint32_t nibbles;
    std::memcpy(&nibbles, b->scales, 4);
    const __m256i shift = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
    const __m256i s =
        _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int32_t>(nibbles)), shift),
                         _mm256_set1_epi32(15));
    const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
    return _mm512_zextps256_ps512(
        _mm256_mul_ps(_mm256_set1_ps(widen_f16(b->d)), _mm256_cvtepi32_ps(odd)));
  }
};

}  // namespace

void product_iq3_s(const IntegerProduct& p) { integer_product<Iq3S>(p); }

}  // namespace chimere::kernels::cpu::avx512
