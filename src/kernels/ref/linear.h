// The scalar oracle of the matrix product: docs/numerics.md, rules 2 to 4, word for word.
#ifndef CHIMERE_KERNELS_REF_LINEAR_H_
#define CHIMERE_KERNELS_REF_LINEAR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "tensor/view.h"

namespace chimere::kernels::ref {

/// One row of activations after rounding (rule 3): n elements in blocks of 32.
struct RoundedRow {
  std::vector<int8_t> q;  ///< [n]
  std::vector<float> d;   ///< [n / 32] scale: x ≈ q · d
};

/// n must be a multiple of 32.
RoundedRow round_activations(const float* x, int64_t n);

/// Dot product of row `o` of w with the activations x [w.n_in]; `rounded` is x after rule 3 and is
/// used by the types for which rounds_activations() is true.
float dot(const WeightView& w, int64_t o, const float* x, const RoundedRow& rounded);

/// See Ops::linear.
void linear(ConstMatrixView x, std::span<const LinearJob> jobs);

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_LINEAR_H_
