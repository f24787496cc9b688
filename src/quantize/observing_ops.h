// Ops that compute as others do and report the inputs of every weight matrix: the statistics hook
// of a step. A model is loaded with them in place of its own ops
// (runtime::MemoryRequest::wrap_ops).
#ifndef CHIMERE_QUANTIZE_OBSERVING_OPS_H_
#define CHIMERE_QUANTIZE_OBSERVING_OPS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/api.h"

namespace chimere::quantize {

/// Receives the inputs x [rows, n_in] of a product with the matrix (or some of its rows) whose
/// bytes begin at `weights`, on the thread that runs the step.
using ObserveInputs = std::function<void(const void* weights, ConstMatrixView x)>;

/// `inner` must work in host memory (a CPU's ops). The inputs of the experts' down projections are
/// computed once more for the observer, so that a step with experts takes longer; its results are
/// the bits of `inner`.
std::unique_ptr<kernels::Ops> make_observing_ops(std::unique_ptr<kernels::Ops> inner,
                                                 ObserveInputs observe);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_OBSERVING_OPS_H_
