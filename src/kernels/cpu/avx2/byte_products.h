// Products of unsigned or signed weights with signed activations, four elements a lane: with AVX2
// in steps of 16 bits, or with one VNNI instruction where the file is compiled for it.
#ifndef CHIMERE_KERNELS_CPU_AVX2_BYTE_PRODUCTS_H_
#define CHIMERE_KERNELS_CPU_AVX2_BYTE_PRODUCTS_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/integer_format.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

inline constexpr int kSuper = 256;

CHIMERE_INLINE __m256i load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
CHIMERE_INLINE void store_bytes(void* p, __m256i v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}

#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
inline constexpr bool kVnni = true;
CHIMERE_INLINE __m256i dot_bytes(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_epi32(sum, w, x);
}
#elif defined(__AVXVNNI__)
inline constexpr bool kVnni = true;
CHIMERE_INLINE __m256i dot_bytes(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(sum, w, x);
}
#else
inline constexpr bool kVnni = false;
CHIMERE_INLINE __m256i dot_bytes(__m256i sum, __m256i /*w*/, __m256i /*x*/) { return sum; }
#endif

/// Added to signed weights to make them unsigned, as log2.
inline constexpr int kSignedOffset = 7;

template <class F>
CHIMERE_INLINE constexpr int offset_bits() {
  return kVnni && F::kSigned ? kSignedOffset : F::kOffset;
}

/// How many products of two weights and two activations (of at most 127) a 16-bit sum can hold;
/// with VNNI there are no such sums.
template <class F>
CHIMERE_INLINE constexpr int chain_quads() {
  if constexpr (kVnni) {
    return 8;
  } else if constexpr (F::kSigned) {
    return 1;
  } else {
    constexpr int kFits = 32767 / (2 * 127 * F::kLargest);
    return kFits >= 8 ? 8 : kFits >= 4 ? 4 : kFits >= 2 ? 2 : 1;
  }
}

/// Weights as tiles store them: with VNNI always unsigned.
template <class F>
CHIMERE_INLINE __m256i stored_weights(__m256i w) {
  if constexpr (kVnni && F::kSigned) return _mm256_xor_si256(w, _mm256_set1_epi8(-128));
  return w;
}

/// A vector of stored weights, with their magnitudes if they are signed.
struct ByteWeights {
  __m256i w;
  __m256i magnitude;
};
template <class F>
CHIMERE_INLINE ByteWeights weights_of(__m256i w) {
  if constexpr (!kVnni && F::kSigned) return {w, _mm256_abs_epi8(w)};
  return {w, w};
}

/// Sums of 16 bits; not used with VNNI.
template <class F>
struct ByteSums {
  __m256i v;
};

/// Keeps the compiler from turning a chain of integer sums into a tree, whose many live registers
/// it would spill (GCC 12 did, at a third of the speed).
CHIMERE_INLINE void in_this_order(__m256i& v) {
  // NOLINTNEXTLINE(hicpp-no-assembler)
  asm("" : "+x"(v));
}

/// Adds the products of 32 weights and activations to `sums` (which begin if `first`), or with VNNI
/// to `dot`. The magnitude of a signed weight is at most 128, so that two products fit 16 bits.
template <class F>
CHIMERE_INLINE void add_products(ByteSums<F>& sums, const ByteWeights& w, __m256i x, bool first,
                                 __m256i& dot) {
  if constexpr (kVnni) {
    dot = dot_bytes(dot, w.w, x);
  } else {
    if constexpr (F::kSigned) x = _mm256_sign_epi8(x, w.w);
    const __m256i two = _mm256_maddubs_epi16(w.magnitude, x);
    sums.v = first ? two : _mm256_add_epi16(sums.v, two);
    in_this_order(sums.v);
  }
}

/// What the sum of a group's products is multiplied with: 2 for stored weights q of which a weight
/// is 2 q - 15 (F::kOddNibbles).
template <class F>
CHIMERE_INLINE constexpr int16_t factor() {
  return requires { F::kOddNibbles; } ? 2 : 1;
}

/// Adds 16-bit sums in pairs, times factor(), to the sums of four in `dot`.
template <class F>
CHIMERE_INLINE void add_sums(const ByteSums<F>& sums, __m256i& dot) {
  if constexpr (!kVnni) {
    dot = _mm256_add_epi32(dot, _mm256_madd_epi16(sums.v, _mm256_set1_epi16(factor<F>())));
    in_this_order(dot);
  }
}

/// What the offset of the weights adds to a group's sum, negated, in every lane.
template <class F>
CHIMERE_INLINE __m256i offset_sum(int32_t neg_sum) {
  if constexpr (factor<F>() == 2) {
    const __m256i sum = _mm256_set1_epi32(neg_sum);
    return _mm256_sub_epi32(_mm256_slli_epi32(sum, 4), sum);
  }
  if constexpr (offset_bits<F>() <= 0) return _mm256_setzero_si256();
  return _mm256_slli_epi32(_mm256_set1_epi32(neg_sum), offset_bits<F>() > 0 ? offset_bits<F>() : 0);
}

/// Copies the rest of a row, less than 256 elements, into a zeroed super-block. It adds zeros to
/// the partial sums, which changes no bit unless a sum is -0. No sum is: every term is a multiple
/// of 2^-149 (scales and minima of f16 are multiples of 2^-24, those of activations of 2^-118), so
/// none is rounded to -0, and sums that start at +0 and cancel are +0.
template <class F>
CHIMERE_INLINE const uint8_t* padded_blocks(const uint8_t* p, int64_t elements, uint8_t* copy) {
  constexpr int64_t kElements = kSuper / F::kBlocks;
  std::memset(copy, 0, F::kBlocks * F::kBlockBytes);
  std::memcpy(copy, p, static_cast<size_t>(elements / kElements * F::kBlockBytes));
  return copy;
}

}  // namespace
}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_AVX2_BYTE_PRODUCTS_H_
