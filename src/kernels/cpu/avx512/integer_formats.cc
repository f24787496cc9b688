// Q8_0 and the K-quants with AVX-512 VNNI.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"
#include "quant/blocks.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

CHIMERE_INLINE __m512i both_halves(const uint8_t* p) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

/// `low` in the 16-bit lanes of the lower half, `high` in those of the upper.
CHIMERE_INLINE __m512i halves_epi16(int low, int high) {
  return _mm512_inserti64x4(_mm512_set1_epi16(static_cast<int16_t>(low)),
                            _mm256_set1_epi16(static_cast<int16_t>(high)), 1);
}

/// Signed weights become unsigned by flipping the top bit, which adds 128.
struct Q80 {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 8;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ8_0);
  static constexpr int kOffset = 7;
  static constexpr bool kMinimum = false;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const auto* b = reinterpret_cast<const quant::BlockQ8_0*>(p);
    const __m512i top = _mm512_set1_epi8(-128);
    for (int i = 0; i < 4; ++i) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * i].qs));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * i + 1].qs));
      v[i] = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), top);
    }
  }

  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const auto* b = reinterpret_cast<const quant::BlockQ8_0*>(p);
    const __m128i d = _mm_setr_epi16(static_cast<int16_t>(b[0].d), static_cast<int16_t>(b[1].d),
                                     static_cast<int16_t>(b[2].d), static_cast<int16_t>(b[3].d),
                                     static_cast<int16_t>(b[4].d), static_cast<int16_t>(b[5].d),
                                     static_cast<int16_t>(b[6].d), static_cast<int16_t>(b[7].d));
    return _mm512_zextps256_ps512(_mm256_cvtph_ps(d));
  }
};

/// Scales and minima of Q4_K and Q5_K; both structs begin with d, dmin, scales[12].
CHIMERE_INLINE __m512 k_scales(const uint8_t* p) {
  uint32_t d;
  uint32_t a;
  uint32_t b;
  uint32_t c;
  std::memcpy(&d, p, 4);
  std::memcpy(&a, p + 4, 4);
  std::memcpy(&b, p + 8, 4);
  std::memcpy(&c, p + 12, 4);
  constexpr uint32_t kSix = 0x3F3F3F3F;
  constexpr uint32_t kFour = 0x0F0F0F0F;
  constexpr uint32_t kTop = 0x30303030;
  const uint64_t scale_high = (c & kFour) | ((a >> 2) & kTop);
  const uint64_t min_high = ((c >> 4) & kFour) | ((b >> 2) & kTop);
  const uint64_t scale = (a & kSix) | (scale_high << 32);
  const uint64_t minimum = (b & kSix) | (min_high << 32);
  const __m128i bytes = _mm_set_epi64x(static_cast<int64_t>(minimum), static_cast<int64_t>(scale));
  const __m128 factors = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int32_t>(d)));
  const __m512i which = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_mul_ps(_mm512_permutexvar_ps(which, _mm512_castps128_ps512(factors)),
                       _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
}

struct Q4K {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ4K);
  static constexpr int kOffset = -1;
  static constexpr bool kMinimum = true;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const auto* b = reinterpret_cast<const quant::BlockQ4K*>(p);
    const __m512i shift = halves_epi16(0, 4);
    const __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < 4; ++i) {
      v[i] = _mm512_and_si512(_mm512_srlv_epi16(both_halves(b->qs + 32 * i), shift), low);
    }
  }

  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return k_scales(p); }
};

struct Q5K {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ5K);
  static constexpr int kOffset = -1;
  static constexpr bool kMinimum = true;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const auto* b = reinterpret_cast<const quant::BlockQ5K*>(p);
    const __m512i shift = halves_epi16(0, 4);
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i fifth = _mm512_set1_epi8(16);
    const __m512i qh = both_halves(b->qh);
    for (int i = 0; i < 4; ++i) {
      // Bits 2 i and 2 i + 1 of every byte of qh belong to these 64 elements.
      const __m512i bit = halves_epi16(0x0101 << (2 * i), 0x0202 << (2 * i));
      const __m512i q =
          _mm512_and_si512(_mm512_srlv_epi16(both_halves(b->qs + 32 * i), shift), low);
      v[i] = _mm512_mask_add_epi8(q, _mm512_test_epi8_mask(qh, bit), q, fifth);
    }
  }

  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return k_scales(p); }
};

struct Q6K {
  static constexpr int kGroup = 16;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ6K);
  static constexpr int kOffset = 5;
  static constexpr bool kMinimum = false;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const auto* b = reinterpret_cast<const quant::BlockQ6K*>(p);
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i top = _mm512_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m512i ql = load_bytes(b->ql + 64 * half);
      const __m512i qh = both_halves(b->qh + 32 * half);
      // Bits 0-1, 2-3 (then 4-5, 6-7) of qh to bits 4-5.
      const __m512i top_low = _mm512_and_si512(_mm512_sllv_epi16(qh, halves_epi16(4, 2)), top);
      const __m512i top_high = _mm512_and_si512(_mm512_srlv_epi16(qh, halves_epi16(0, 2)), top);
      v[2 * half] = _mm512_or_si512(_mm512_and_si512(ql, low), top_low);
      v[2 * half + 1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(ql, 4), low), top_high);
    }
  }

  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const auto* b = reinterpret_cast<const quant::BlockQ6K*>(p);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b->scales));
    return _mm512_mul_ps(_mm512_set1_ps(widen_f16(b->d)),
                         _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
  }
};

}  // namespace

void product_q8_0(const IntegerProduct& p) { integer_product<Q80>(p); }
void product_q4_k(const IntegerProduct& p) { integer_product<Q4K>(p); }
void product_q5_k(const IntegerProduct& p) { integer_product<Q5K>(p); }
void product_q6_k(const IntegerProduct& p) { integer_product<Q6K>(p); }

}  // namespace chimere::kernels::cpu::avx512
