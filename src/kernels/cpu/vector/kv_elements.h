// How keys and values of each type are read from a page (layout: vector_kernels.h). A type E has
//   kPiece      elements of a head that are stored together; they share a scale
//   kStep       elements per load of keys
//   kScaled     whether there are scales
//   bytes(n)    size of n elements of one position
//   keys()      elements j .. j + kStep - 1 of a piece at 16 positions, without scale
//   value()     16 elements (the t-th of the piece) at one position, without scale
// Internal to cpu/vector.
#ifndef CHIMERE_KERNELS_CPU_VECTOR_KV_ELEMENTS_H_
#define CHIMERE_KERNELS_CPU_VECTOR_KV_ELEMENTS_H_

#include <cstdint>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector/float_elements.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

inline constexpr int kPage = 64;
/// Positions of a key tile.
inline constexpr int kKeyTile = 32;
/// Bytes of an f16 scale.
inline constexpr int kScaleBytes = 2;

/// Type: of float_elements.h.
template <class Type>
struct PlainElements {
  using Stored = typename Type::Element;
  static constexpr int kPiece = 16;
  static constexpr int kStep = 1;
  static constexpr bool kScaled = false;
  static constexpr int64_t bytes(int n) { return n * static_cast<int64_t>(sizeof(Stored)); }
  CHIMERE_INLINE static void keys(const uint8_t* piece, int j, int position, F32x16* out) {
    out[0] = Type::load(reinterpret_cast<const Stored*>(piece) + j * kKeyTile + position);
  }
  CHIMERE_INLINE static F32x16 value(const uint8_t* piece, int position, int /*t*/) {
    return Type::load(reinterpret_cast<const Stored*>(piece) + position * kLanes);
  }
};
using F32Elements = PlainElements<F32>;
using F16Elements = PlainElements<F16>;
using Bf16Elements = PlainElements<Bf16>;

struct Q8Elements {
  static constexpr int kPiece = 32;
  static constexpr int kStep = 1;
  static constexpr bool kScaled = true;
  static constexpr int64_t bytes(int n) { return static_cast<int64_t>(n / kPiece) * 34; }
  CHIMERE_INLINE static void keys(const uint8_t* piece, int j, int position, F32x16* out) {
    out[0] = F32x16::load_i8(piece + kKeyTile * kScaleBytes + j * kKeyTile + position);
  }
  CHIMERE_INLINE static F32x16 value(const uint8_t* piece, int position, int t) {
    return F32x16::load_i8(piece + kPage * kScaleBytes + position * kPiece + t * kLanes);
  }
};

struct Q4Elements {
  static constexpr int kPiece = 32;
  static constexpr int kStep = 2;
  static constexpr bool kScaled = true;
  static constexpr int64_t bytes(int n) { return static_cast<int64_t>(n / kPiece) * 18; }
  CHIMERE_INLINE static void keys(const uint8_t* piece, int j, int position, F32x16* out) {
    F32x16::load_nibbles(piece + kKeyTile * kScaleBytes + j / 2 * kKeyTile + position, out[0],
                         out[1]);
  }
  CHIMERE_INLINE static F32x16 value(const uint8_t* piece, int position, int t) {
    F32x16 half[2];
    F32x16::load_nibbles(piece + kPage * kScaleBytes + position * (kPiece / 2), half[0], half[1]);
    return half[t];
  }
};

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_VECTOR_KV_ELEMENTS_H_
