// The scalar oracle of short convolutions and state-space recurrences: docs/numerics.md as plain
// loops. Each function is the Ops member of the same name.
#ifndef CHIMERE_KERNELS_REF_STATE_SPACE_H_
#define CHIMERE_KERNELS_REF_STATE_SPACE_H_

#include "kernels/api.h"
#include "kernels/state_space.h"
#include "tensor/view.h"

namespace chimere::kernels::ref {

void causal_conv(const BatchView& batch, const ConvShape& shape, const float* weight,
                 const float* bias, RecurrentView state, MatrixView x);

void ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
              ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state, MatrixView out);

void selective_scan(const BatchView& batch, const SelectiveShape& shape,
                    const SelectiveWeights& weights, const SelectiveInputs& inputs,
                    RecurrentView state, MatrixView out);

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_STATE_SPACE_H_
