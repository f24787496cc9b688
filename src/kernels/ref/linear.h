// The scalar oracle of the matrix product: docs/numerics.md, rules 2 to 4, word for word.
#ifndef CHIMERE_KERNELS_REF_LINEAR_H_
#define CHIMERE_KERNELS_REF_LINEAR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "tensor/view.h"

namespace chimere::kernels::ref {

/// A row of n activations and, when n is a multiple of 32, its rounded form (rule 3).
struct Activations {
  std::vector<float> x;   ///< [n]
  std::vector<int8_t> q;  ///< [n]; x ≈ q · d
  std::vector<float> d;   ///< [n / 32]
};

Activations round_activations(const float* x, int64_t n);

/// Dot product of row `o` of w with the activations, by rule 2 or 4 depending on w's type.
float dot(const WeightView& w, int64_t o, const Activations& x);

/// The adapters of one row; none without `step`.
struct RowChange {
  const StepAdapters* step = nullptr;
  std::span<const AdapterUse> uses = {};

  /// y += factor · B (A x) for each use that changes w. x [n_in], y [n_out].
  void add(const WeightView& w, float factor, const std::vector<float>& x, float* y) const;
};

/// See Ops::linear. `wanted`: x has the wanted rows of the step.
void linear(ConstMatrixView x, std::span<const LinearJob> jobs,
            const StepAdapters* adapters = nullptr, bool wanted = false);

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_LINEAR_H_
