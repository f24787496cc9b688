#include "kernels/cpu/vector/functions.h"
#include "kernels/cpu/vector/hadamard.h"
#include "kernels/cpu/vector/kv_elements.h"
#include "quant/quant.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

constexpr uint16_t kF16NaN = 0x7E00;
constexpr int kPiece = Q8Elements::kPiece;

/// Elements without a scale.
template <class E>
struct PlainRounding {
  using Stored = typename E::Stored;
  CHIMERE_INLINE static void round(const float* x, Stored* out) {
    if constexpr (sizeof(Stored) == sizeof(float)) {
      F32x16::load(x).store(out);
    } else {
      F32x16::load(x).store_f16(out);
    }
  }
};
template <>
struct PlainRounding<Bf16Elements> {
  CHIMERE_INLINE static void round(const float* x, uint16_t* out) {
    for (int i = 0; i < kLanes; ++i) out[i] = quant::f32_to_bf16(x[i]);
  }
};

template <class E>
void append_plain_key(float* x, int head_dim, int slot, uint8_t* page) {
  using Stored = typename E::Stored;
  Stored* tile = reinterpret_cast<Stored*>(page) +
                 static_cast<int64_t>(slot / kKeyTile) * head_dim * kKeyTile + slot % kKeyTile;
  for (int d = 0; d < head_dim; d += kLanes) {
    Stored rounded[kLanes];
    PlainRounding<E>::round(x + d, rounded);
    for (int i = 0; i < kLanes; ++i) tile[static_cast<int64_t>(d + i) * kKeyTile] = rounded[i];
  }
}

template <class E>
void append_plain_value(float* x, int head_dim, int slot, uint8_t* page) {
  auto* tile = reinterpret_cast<typename E::Stored*>(page) + slot * kLanes;
  for (int d = 0; d < head_dim; d += kLanes) {
    PlainRounding<E>::round(x + d, tile + static_cast<int64_t>(d) * kPage);
  }
}

/// The scale and the levels of 32 elements.
struct Piece {
  uint16_t scale;
  int8_t levels[kPiece];
};

/// Levels are x / scale rounded to the nearest in [low, high]; all 0 if the scale is 0.
CHIMERE_INLINE void set_levels(const float* x, float low, float high, Piece& piece) {
  const float scale = F32x16::widen_f16(piece.scale);
  for (int i = 0; i < kPiece; i += kLanes) {
    float levels[kLanes];
    const F32x16 exact = F32x16::load(x + i) / F32x16::set(scale);
    const F32x16 bias = F32x16::set(kRoundBias);
    const F32x16 limited = max(F32x16::set(low), min(F32x16::set(high), exact));
    ((limited + bias) - bias).store(levels);
    for (int j = 0; j < kLanes; ++j) {
      piece.levels[i + j] = scale == 0 ? int8_t{0} : static_cast<int8_t>(levels[j]);
    }
  }
}

/// The first element of the largest magnitude; false if an element is not finite.
CHIMERE_INLINE bool find_extreme(const float* x, float& most) {
  most = x[0];
  float odd = 0;  // becomes NaN if any element is not finite
  for (int i = 0; i < kPiece; ++i) {
    odd += x[i] - x[i];
    if (__builtin_fabsf(x[i]) > __builtin_fabsf(most)) most = x[i];
  }
  return odd == 0;
}

struct Q8Rounding {
  using Elements = Q8Elements;
  CHIMERE_INLINE static Piece round(const float* x) {
    Piece piece = {kF16NaN, {}};
    float most = 0;
    if (!find_extreme(x, most)) return piece;
    piece.scale = quant::f32_to_f16(__builtin_fabsf(most) / 127.0F);
    set_levels(x, -127, 127, piece);
    return piece;
  }
  CHIMERE_INLINE static void put_key(const Piece& piece, uint8_t* to) {
    for (int i = 0; i < kPiece; ++i) to[i * kKeyTile] = static_cast<uint8_t>(piece.levels[i]);
  }
  CHIMERE_INLINE static void put_value(const Piece& piece, int slot, uint8_t* to) {
    for (int i = 0; i < kPiece; ++i) to[slot * kPiece + i] = static_cast<uint8_t>(piece.levels[i]);
  }
};

struct Q4Rounding {
  using Elements = Q4Elements;
  static constexpr int kBytes = kPiece / 2;
  CHIMERE_INLINE static Piece round(const float* x) {
    Piece piece = {kF16NaN, {}};
    float most = 0;
    if (!find_extreme(x, most)) return piece;
    piece.scale = quant::f32_to_f16(most / -8.0F);
    set_levels(x, -8, 7, piece);
    return piece;
  }
  CHIMERE_INLINE static uint8_t nibbles(int low, int high) {
    return static_cast<uint8_t>((low + 8) | (high + 8) << 4);
  }
  CHIMERE_INLINE static void put_key(const Piece& piece, uint8_t* to) {
    for (int i = 0; i < kBytes; ++i) {
      to[i * kKeyTile] = nibbles(piece.levels[2 * i], piece.levels[2 * i + 1]);
    }
  }
  CHIMERE_INLINE static void put_value(const Piece& piece, int slot, uint8_t* to) {
    for (int i = 0; i < kBytes; ++i) {
      to[slot * kBytes + i] = nibbles(piece.levels[i], piece.levels[i + kBytes]);
    }
  }
};

template <class R>
void append_key(float* x, int head_dim, int slot, uint8_t* page) {
  using E = typename R::Elements;
  const int at = slot % kKeyTile;
  uint8_t* to = page + slot / kKeyTile * kKeyTile * E::bytes(head_dim);
  for (int d = 0; d < head_dim; d += kPiece, to += kKeyTile * E::bytes(kPiece)) {
    const Piece piece = R::round(x + d);
    reinterpret_cast<uint16_t*>(to)[at] = piece.scale;
    R::put_key(piece, to + kKeyTile * kScaleBytes + at);
  }
}

template <class R>
void append_value(float* x, int head_dim, int slot, uint8_t* page) {
  using E = typename R::Elements;
  rotate_head(x, head_dim);
  for (int d = 0; d < head_dim; d += kPiece, page += kPage * E::bytes(kPiece)) {
    const Piece piece = R::round(x + d);
    reinterpret_cast<uint16_t*>(page)[slot] = piece.scale;
    R::put_value(piece, slot, page + kPage * kScaleBytes);
  }
}

template <class E>
void add_plain(VectorKernels& kernels, KvType type) {
  kernels.append_key[static_cast<int>(type)] = append_plain_key<E>;
  kernels.append_value[static_cast<int>(type)] = append_plain_value<E>;
}
template <class R>
void add_quantised(VectorKernels& kernels, KvType type) {
  kernels.append_key[static_cast<int>(type)] = append_key<R>;
  kernels.append_value[static_cast<int>(type)] = append_value<R>;
}

}  // namespace

void add_append_kernels(VectorKernels& kernels) {
  add_plain<F32Elements>(kernels, KvType::kF32);
  add_plain<F16Elements>(kernels, KvType::kF16);
  add_plain<Bf16Elements>(kernels, KvType::kBF16);
  add_quantised<Q8Rounding>(kernels, KvType::kQ8_0);
  add_quantised<Q4Rounding>(kernels, KvType::kQ4_0);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
