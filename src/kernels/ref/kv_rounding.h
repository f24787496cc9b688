// How the oracle rotates and rounds a head before storing it in a KV cache type (docs/numerics.md,
// "Rotated heads" and "Types of the cache").
#ifndef CHIMERE_KERNELS_REF_KV_ROUNDING_H_
#define CHIMERE_KERNELS_REF_KV_ROUNDING_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace chimere::kernels::ref {

/// x [n] times the orthonormal Walsh-Hadamard matrix of the largest power of two that divides n,
/// block by block. Its own inverse, up to rounding.
void rotate_head(float* x, int n);

/// Rounds x [n] to `type` (is_kv_type()); `dst` gets row_bytes(type, n) bytes in the format's own
/// order.
void store_head(DType type, const float* x, int n, uint8_t* dst);

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_KV_ROUNDING_H_
