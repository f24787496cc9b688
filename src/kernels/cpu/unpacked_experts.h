// A layer's experts with their IQ3_S matrices unpacked in memory of their own.
#ifndef CHIMERE_KERNELS_CPU_UNPACKED_EXPERTS_H_
#define CHIMERE_KERNELS_CPU_UNPACKED_EXPERTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/reserved_memory.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/api.h"

namespace chimere::kernels::cpu {

class UnpackedExperts final : public PlacedExperts {
 public:
  /// Matrices of other types, or whose number of rows is no multiple of 8, stay as they are.
  /// Errors: kOutOfMemory, and those of `unpacking.read`.
  static Result<std::unique_ptr<UnpackedExperts>> create(ThreadPool& pool,
                                                         std::vector<ExpertWeights> routed,
                                                         std::optional<ExpertWeights> shared,
                                                         const Unpacking& unpacking);

 private:
  UnpackedExperts(std::vector<ExpertWeights> r, std::optional<ExpertWeights> s)
      : PlacedExperts(std::move(r), s) {}

  ReservedMemory memory_;  ///< in huge pages: an expert is read from begin to end
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_UNPACKED_EXPERTS_H_
