// The gated delta net on a card: Ops::gdn_conv and Ops::gdn_scan with the same bits, and, for steps
// without chunks, both with the gated norm behind them in one launch.
#ifndef CHIMERE_KERNELS_CUDA_GDN_H_
#define CHIMERE_KERNELS_CUDA_GDN_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"

namespace chimere::kernels::cuda {

/// Bytes of device memory that each of the functions below may write to while it runs: what lies in
/// it before and after has no meaning.
int64_t gdn_scratch_bytes(const GdnShape& shape, const BatchExtent& extent);

void gdn_conv(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, const float* weight,
              float eps, RecurrentView state, MatrixView qkv, uint8_t* scratch);

void gdn_scan(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, ConstMatrixView qkv,
              ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
              RecurrentView state, MatrixView out, uint8_t* scratch);

/// What gdn_step reads and writes: see Ops::gdn_conv, Ops::gdn_scan and Ops::gated_rms_norm.
struct GdnStepOperands {
  ConstMatrixView qkv;  ///< inputs of the convolution; not changed
  const float* conv_weight = nullptr;
  float conv_eps = 0;
  RecurrentView conv_state;
  ConstMatrixView alpha;
  ConstMatrixView beta;
  const float* a = nullptr;
  const float* dt_bias = nullptr;
  RecurrentView scan_state;
  ConstMatrixView z;
  const float* norm = nullptr;
  float norm_eps = 0;
  MatrixView out;
};

/// Whether gdn_step takes a step: it has no chunks and no sequence has two runs.
bool takes_gdn_step(const BatchExtent& extent);

/// gdn_conv, gdn_scan and gated_rms_norm of a step in one launch. `arrivals`: n_sequences * n_k_heads
/// zeros, and zeros again afterwards.
void gdn_step(Stream& stream, const DeviceBatch& batch, const GdnShape& shape,
              const GdnStepOperands& operands, uint32_t* arrivals);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_GDN_H_
