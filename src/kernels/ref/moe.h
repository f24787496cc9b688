// The scalar oracle of feed-forward networks: docs/numerics.md, rule 7.
#ifndef CHIMERE_KERNELS_REF_MOE_H_
#define CHIMERE_KERNELS_REF_MOE_H_

#include <span>

#include "kernels/api.h"
#include "tensor/view.h"

namespace chimere::kernels::ref {

/// See Ops::moe_ffn. `wanted`: x has the wanted rows of the step.
void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts, const Routing& routing,
             const ExpertWeights* shared, const float* shared_gate, const MoeOptions& options,
             MatrixView y, const StepAdapters* adapters = nullptr, bool wanted = false);

/// See Ops::activate.
void activate(Activation f, MatrixView h, ConstMatrixView up);

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_MOE_H_
