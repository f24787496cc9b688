// Arguments of the kernels of state_space.cu: the shapes and operands of kernels/state_space.h.
#ifndef CHIMERE_KERNELS_CUDA_STATE_SPACE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_STATE_SPACE_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"

namespace chimere::kernels::cuda {

/// Largest convolution size in taps.
inline constexpr int kMaxConvTaps = 8;
inline constexpr int kConvThreads = 64;
/// Columns of a state per block: one warp.
inline constexpr int kScanColumns = 32;

/// causal_conv: one thread per channel.
struct CausalConvArgs {
  BatchArgs batch;  ///< fold_begin and keep_row are nullptr if no row is folded, or kept
  int32_t channels;
  int32_t taps;
  int32_t silu;
  const float* weight;  ///< [channels, taps]
  const float* bias;    ///< [channels], or nullptr
  SlotArgs state;
  Rows x;  ///< [rows, channels], in place
};

/// ssd_scan: one warp per kScanColumns columns of a head, or per head of 16.
struct SsdArgs {
  BatchArgs batch;  ///< as in CausalConvArgs
  int32_t n_heads;
  int32_t head_dim;
  int32_t n_groups;
  int32_t state_dim;
  int32_t columns;  ///< of a block; divides head_dim
  const float* a;   ///< [n_heads]
  const float* d;
  const float* dt_bias;
  ConstRows xbc;
  ConstRows dt;
  SlotArgs state;
  Rows out;
};

/// selective_scan: one thread per channel.
struct SelectiveArgs {
  BatchArgs batch;  ///< as in CausalConvArgs
  int32_t channels;
  int32_t state_dim;
  const float* a;  ///< [channels / 16, state_dim, 16]
  const float* d;  ///< [channels]
  const float* dt_bias;
  ConstRows x;
  ConstRows dt;
  ConstRows b;
  ConstRows c;
  SlotArgs state;
  Rows out;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_STATE_SPACE_ARGS_H_
