// Matrix products and feed-forward networks on the CPU: Ops::linear, Ops::moe_ffn and
// Ops::activate.
#ifndef CHIMERE_KERNELS_CPU_LINEAR_H_
#define CHIMERE_KERNELS_CPU_LINEAR_H_

#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "tensor/view.h"

namespace chimere::kernels::cpu {

/// Adapters of the rows of a matrix of a step; `wanted`: the matrix has the step's wanted rows.
struct MatrixAdapters {
  const StepAdapters* step = nullptr;  ///< nullptr: none
  bool wanted = false;

  bool none() const { return step == nullptr || step->none(); }
};

/// Computes the bits that docs/numerics.md defines, on any instruction set. Owns the scratch memory
/// of its operations, so one call at a time.
class LinearEngine {
 public:
  /// The pool must outlive the engine; `isa` must be one of usable_cpu_isas().
  LinearEngine(ThreadPool& pool, CpuIsa isa);
  ~LinearEngine();
  LinearEngine(const LinearEngine&) = delete;
  LinearEngine& operator=(const LinearEngine&) = delete;

  /// See Ops::linear.
  void linear(ConstMatrixView x, std::span<const LinearJob> jobs, MatrixAdapters adapters = {});
  /// See Ops::moe_ffn.
  void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts, const Routing& routing,
               const ExpertWeights* shared, const float* shared_gate, const MoeOptions& options,
               MatrixView y, MatrixAdapters adapters = {});
  /// See Ops::activate.
  void activate(Activation f, MatrixView h, ConstMatrixView up);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_LINEAR_H_
