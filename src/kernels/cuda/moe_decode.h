// Experts of decode rows on a GPU: Ops::moe_ffn, with the bits of ref.
#ifndef CHIMERE_KERNELS_CUDA_MOE_DECODE_H_
#define CHIMERE_KERNELS_CUDA_MOE_DECODE_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/cuda/moe_args.h"
#include "tensor/memory.h"

namespace chimere::kernels::cuda {

/// Addresses of a layer's experts, in device memory. Created once, after the weights' upload.
class ExpertTable {
 public:
  /// All weights are packed, in device memory. Errors: kUnsupported (routed experts that differ in
  /// types or shapes, or more than kMoeMostExperts), kOutOfMemory, kIo.
  static Result<ExpertTable> create(Memory& memory, std::span<const ExpertWeights> experts,
                                    const ExpertWeights* shared);

  const ExpertTableArgs& args() const { return args_; }
  /// The larger n_ff, rounded up to a multiple of 32.
  int64_t h_width() const;
  /// Slots per row, one per expert.
  int64_t slots(int n_used) const { return n_used + args_.has_shared; }
  /// Whether the routed experts' down products have biases.
  bool biased() const { return biased_; }

 private:
  std::unique_ptr<MemoryRange> memory_;
  ExpertTableArgs args_ = {};
  bool biased_ = false;
};

/// Bytes of scratch memory that moe_decode() needs.
int64_t moe_decode_scratch_bytes(const ExpertTable& table, int64_t rows, int n_used);

/// y += the experts' output for the rows that `rows` names (Ops::moe_ffn). n_used is at most
/// kMoeMostUsed. All pointers are the device's. `rounded`: x rounded, all rows; not read if gate
/// and up have float types. `scratch` is aligned to 16 bytes.
void moe_decode(Stream& stream, int multiprocessors, const ExpertTable& table, ConstMatrixView x,
                const RoundedRows& rounded, const RowSet& rows, const Routing& routing,
                const float* shared_gate, const MoeOptions& options, const uint32_t* codebook,
                uint8_t* scratch, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_DECODE_H_
