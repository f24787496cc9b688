// Matrix products of decode rows on a GPU: Ops::linear, with the bits of ref.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_DECODE_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_DECODE_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"
#include "kernels/cuda/device/device_facts.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/rounding_args.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// The rows of a matrix that an op computes: `ids` (in device memory, [count], distinct and below
/// the matrix's rows), or without ids the first `count`.
struct RowSet {
  const int32_t* ids = nullptr;
  int32_t count = 0;
};

/// Launch configuration for a product of decode rows with quantised weights that linear_tile.cu
/// does not compute; a function of its arguments only.
struct LinearDecodePlan {
  int rows = 1;           ///< rows per decoding of a weight: 1 or 8
  int passes = 1;         ///< outputs per half warp
  bool by_warps = false;  ///< a warp per output, for one row and few outputs
};
LinearDecodePlan plan_linear_decode(int64_t outputs, int rows, int multiprocessors);

/// Bytes of the rounded form of `rows` rows of n activations, without tiles.
int64_t rounded_bytes(int64_t rows, int64_t n);
/// Lays out the rounded form in that many bytes, aligned to 16.
RoundedRows rounded_rows_at(uint8_t* memory, int64_t rows, int64_t n);

/// The same with tiles.
int64_t tiled_rounded_bytes(int64_t rows, int64_t n);
RoundedRows tiled_rounded_rows_at(uint8_t* memory, int64_t rows, int64_t n);

/// Rounds all rows of x (rule 3 of docs/numerics.md); x.cols is a multiple of 32.
void round_rows(Stream& stream, ConstMatrixView x, const RoundedRows& rounded);

/// What launches of products depend on besides the problem: fields of DeviceFacts.
struct LinearDevice {
  LinearDevice(const DeviceFacts& facts)  // NOLINT(google-explicit-constructor): a part of it
      : multiprocessors(facts.multiprocessors), shared_bytes(facts.shared_bytes) {}

  int multiprocessors;
  int64_t shared_bytes;
};

/// Each job's product with the rows of x that `rows` names. All pointers are the device's. Weights
/// are packed (pack_weights.h). `codebook`: codebook_words() in device memory. `rounded`: x
/// rounded, all rows; not read if all weights are floats.
void linear_decode(Stream& stream, const LinearDevice& device, ConstMatrixView x,
                   const RoundedRows& rounded, const RowSet& rows, const uint32_t* codebook,
                   std::span<const LinearJob> jobs);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_DECODE_H_
