// Kernels of the training step. Pointers are device memory; bf16 arrays are void*. Every function
// enqueues on `stream` and returns.
#ifndef CHIMERE_TRAIN_KERNELS_LAUNCH_H_
#define CHIMERE_TRAIN_KERNELS_LAUNCH_H_

#include <cstdint>

namespace chimere::train::cuda {

struct Stream {
  void* handle;
};
/// Sums over rows come as one partial row a block: [kPartials, width] f32, to be added up.
constexpr int kPartials = 264;

/// The gated delta rule, see delta_rule_block.h; DeltaRule with void* in place of bf16.
struct DeltaCall {
  int64_t n_batch, n_time, n_k, n_v;
  const void* mixed;
  const float *g, *beta;
  void* out;
  float* states;
  const void* d_out;
  void *d_q, *d_k, *d_v;
  float *d_g, *d_beta;
};
void delta_rule(const DeltaCall& call, bool backward, Stream stream);

/// y = x / rms(x) * weight, of rows of `width` (a multiple of 64, at most 1024); x f32, y bf16.
/// scale[row] = 1 / rms.
void rms_norm(const float* x, const float* weight, float eps, void* y, float* scale, int64_t rows,
              int width, Stream stream);
void rms_norm_backward(const float* x, const float* weight, const float* scale, const void* d_y,
                       float* d_x, float* d_weight_partials, int64_t rows, int width,
                       Stream stream);

/// y = norm(x) * weight * silu(z) of rows of 64, all bf16 but the weight.
void gated_norm(const void* x, const float* weight, const void* z, float eps, void* y, int64_t rows,
                Stream stream);
void gated_norm_backward(const void* x, const float* weight, const void* z, float eps,
                         const void* d_y, void* d_x, void* d_z, float* d_weight_partials,
                         int64_t rows, Stream stream);

/// Causal convolution over four tokens, SiLU, then heads below `unit_heads` scaled to length 1 and
/// below `scaled_heads` to length 1/8 (queries, whose product with keys is divided by sqrt(64)).
/// x, y: bf16 [B, T, C]; weight f32 [C, 4]. d_conv is scratch like x.
struct ConvCall {
  int64_t n_batch, n_time;
  int channels, unit_heads, scaled_heads;
  float eps;
  const void* x;
  const float* weight;
};
void conv_unit(const ConvCall& call, void* y, Stream stream);
void conv_unit_backward(const ConvCall& call, const void* d_y, void* d_conv, void* d_x,
                        float* d_weight_partials, Stream stream);

/// h[n, e * 256 + i] = silu(gate) * up * scale[n, e]; gate_up bf16 [N, 2, groups * 256], scale f32.
void gated_unit(const void* gate_up, const float* scale, void* h, int64_t rows, int groups,
                Stream stream);
void gated_unit_backward(const void* gate_up, const float* scale, const void* d_h, void* d_gate_up,
                         float* d_scale, int64_t rows, int groups, Stream stream);

/// losses[n] = -log softmax(logits[n])[target[n]]; logits (bf16 [N, V]) become their gradients
/// times `weight`.
void cross_entropy(void* logits, const int64_t* target, float* losses, float weight, int64_t rows,
                   int vocabulary, Stream stream);

/// Rounds `blocks` blocks of 32 weights to four bits, see four_bits.h; out may be w.
void round_four_bit_blocks(const float* w, float* out, float share, int64_t blocks, Stream stream);

}  // namespace chimere::train::cuda

#endif  // CHIMERE_TRAIN_KERNELS_LAUNCH_H_
