// Scalar form of the table in docs/numerics.md, rule 4: a weight row as the integer dot product
// reads it.
#ifndef CHIMERE_KERNELS_INTEGER_WEIGHTS_H_
#define CHIMERE_KERNELS_INTEGER_WEIGHTS_H_

#include <cstdint>

#include "kernels/dot_rule.h"
#include "tensor/dtype.h"

namespace chimere::kernels {

/// Unpacks a row of n elements of a type with takes_integer_dot(): integers q [n], and for each
/// scale group its scale s and minimum m [n / scale_group(type)] (m is 0 for formats without
/// minima). Element i of group g has the value s[g] · q[i] − m[g].
void unpack_integer_weights(DType type, const uint8_t* row, int64_t n, int8_t* q, float* s,
                            float* m);

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_INTEGER_WEIGHTS_H_
