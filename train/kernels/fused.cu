// Elementwise work of a training step, each in one pass over memory: one warp a row of a norm, of
// a head or of an expert's hidden units; one block a row of logits.
#include <cuda_bf16.h>

#include "kernels/four_bits.h"
#include "kernels/launch.h"

namespace chimere::train::cuda {
namespace {

using bf16 = __nv_bfloat16;
constexpr int kWarps = 8, kThreads = 32 * kWarps;

cudaStream_t raw(Stream s) { return static_cast<cudaStream_t>(s.handle); }
unsigned blocks_for(int64_t rows) { return static_cast<unsigned>((rows + kWarps - 1) / kWarps); }

__device__ float warp_sum(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0U, x, mask);
  return x;
}
__device__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }
__device__ float2 pair(const bf16* at) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(at));
}
__device__ void set_pair(bf16* at, float a, float b) {
  *reinterpret_cast<__nv_bfloat162*>(at) = __floats2bfloat162_rn(a, b);
}
__device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
__device__ int64_t first_row() { return static_cast<int64_t>(blockIdx.x) * kWarps + warp(); }

/// Adds each warp's `width` values (columns 2 * (lane + 32 i) and the next) into one row.
template <int kPairs>
__device__ void write_partials(const float (&sums)[2 * kPairs], float* out) {
  __shared__ float shared[kWarps][64 * kPairs];
  for (int i = 0; i < kPairs; ++i) {
    shared[warp()][2 * (lane() + 32 * i)] = sums[2 * i];
    shared[warp()][2 * (lane() + 32 * i) + 1] = sums[2 * i + 1];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 64 * kPairs; i += kThreads) {
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total += shared[w][i];
    out[static_cast<int64_t>(blockIdx.x) * 64 * kPairs + i] = total;
  }
}

template <int kPairs>
__global__ void rms_norm_kernel(const float* x, const float* weight, float eps, bf16* y,
                                float* scale, int64_t rows) {
  constexpr int kWidth = 64 * kPairs;
  const int64_t row = first_row();
  if (row >= rows) return;
  float2 v[kPairs];
  float sum = 0;
  for (int i = 0; i < kPairs; ++i) {
    v[i] = *reinterpret_cast<const float2*>(x + row * kWidth + 2 * (lane() + 32 * i));
    sum += v[i].x * v[i].x + v[i].y * v[i].y;
  }
  const float s = rsqrtf(warp_sum(sum) / kWidth + eps);
  if (lane() == 0) scale[row] = s;
  for (int i = 0; i < kPairs; ++i) {
    const int at = 2 * (lane() + 32 * i);
    set_pair(y + row * kWidth + at, v[i].x * s * weight[at], v[i].y * s * weight[at + 1]);
  }
}

template <int kPairs>
__global__ void rms_norm_backward_kernel(const float* x, const float* weight, const float* scale,
                                         const bf16* d_y, float* d_x, float* partials,
                                         int64_t rows) {
  constexpr int kWidth = 64 * kPairs;
  float d_weight[2 * kPairs] = {};
  for (int64_t row = first_row(); row < rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    float2 v[kPairs], d[kPairs];
    const float s = scale[row];
    float dot = 0;
    for (int i = 0; i < kPairs; ++i) {
      const int at = 2 * (lane() + 32 * i);
      v[i] = *reinterpret_cast<const float2*>(x + row * kWidth + at);
      d[i] = pair(d_y + row * kWidth + at);
      d_weight[2 * i] += d[i].x * v[i].x * s;
      d_weight[2 * i + 1] += d[i].y * v[i].y * s;
      d[i].x *= weight[at];
      d[i].y *= weight[at + 1];
      dot += d[i].x * v[i].x + d[i].y * v[i].y;
    }
    const float mean = warp_sum(dot) / kWidth * s * s;
    for (int i = 0; i < kPairs; ++i) {
      *reinterpret_cast<float2*>(d_x + row * kWidth + 2 * (lane() + 32 * i)) =
          make_float2(s * (d[i].x - v[i].x * mean), s * (d[i].y - v[i].y * mean));
    }
  }
  write_partials<kPairs>(d_weight, partials);
}

__global__ void gated_norm_kernel(const bf16* x, const float* weight, const bf16* z, float eps,
                                  bf16* y, int64_t rows) {
  const int64_t row = first_row(), at = row * 64 + 2 * lane();
  if (row >= rows) return;
  const float2 v = pair(x + at), gate = pair(z + at);
  const float s = rsqrtf(warp_sum(v.x * v.x + v.y * v.y) / 64 + eps);
  set_pair(y + at, v.x * s * weight[2 * lane()] * gate.x * sigmoid(gate.x),
           v.y * s * weight[2 * lane() + 1] * gate.y * sigmoid(gate.y));
}

__global__ void gated_norm_backward_kernel(const bf16* x, const float* weight, const bf16* z,
                                           float eps, const bf16* d_y, bf16* d_x, bf16* d_z,
                                           float* partials, int64_t rows) {
  float d_weight[2] = {};
  const float w0 = weight[2 * lane()], w1 = weight[2 * lane() + 1];
  for (int64_t row = first_row(); row < rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t at = row * 64 + 2 * lane();
    const float2 v = pair(x + at), gate = pair(z + at), d = pair(d_y + at);
    const float s = rsqrtf(warp_sum(v.x * v.x + v.y * v.y) / 64 + eps);
    const float p0 = sigmoid(gate.x), p1 = sigmoid(gate.y);
    const float g0 = gate.x * p0, g1 = gate.y * p1;
    d_weight[0] += d.x * g0 * v.x * s;
    d_weight[1] += d.y * g1 * v.y * s;
    const float t0 = d.x * g0 * w0, t1 = d.y * g1 * w1;
    const float mean = warp_sum(t0 * v.x + t1 * v.y) / 64 * s * s;
    set_pair(d_x + at, s * (t0 - v.x * mean), s * (t1 - v.y * mean));
    set_pair(d_z + at, d.x * v.x * s * w0 * (p0 + g0 * (1 - p0)),
             d.y * v.y * s * w1 * (p1 + g1 * (1 - p1)));
  }
  write_partials<1>(d_weight, partials);
}

__global__ void round_kernel(const float* w, float* out, float share, int64_t blocks) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block >= blocks) return;
  const auto* from = reinterpret_cast<const float4*>(w) + block * (kFourBitBlock / 4);
  auto* to = reinterpret_cast<float4*>(out) + block * (kFourBitBlock / 4);
  float v[kFourBitBlock];
#pragma unroll
  for (int i = 0; i < kFourBitBlock / 4; ++i) {
    const float4 four = from[i];
    v[4 * i] = four.x;
    v[4 * i + 1] = four.y;
    v[4 * i + 2] = four.z;
    v[4 * i + 3] = four.w;
  }
  round_four_bit_block(v, v, share);
#pragma unroll
  for (int i = 0; i < kFourBitBlock / 4; ++i) {
    to[i] = make_float4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
  }
}

struct Conv {
  int64_t n_rows, n_time;
  int channels, unit_heads, scaled_heads;
  float eps;
  const bf16* x;
  const float* weight;

  /// The convolution of one token (row) at two channels.
  __device__ float2 at(int64_t row, int channel) const {
    float2 sum = {0, 0};
    const int64_t time = row % n_time;
    for (int tap = 0; tap < 4; ++tap) {
      if (time + tap < 3) continue;
      const float2 v = pair(x + (row + tap - 3) * channels + channel);
      sum.x += v.x * weight[channel * 4 + tap];
      sum.y += v.y * weight[(channel + 1) * 4 + tap];
    }
    return sum;
  }
  __device__ float length(int head) const { return head < scaled_heads ? 0.125F : 1.0F; }
};

__global__ void conv_unit_kernel(Conv c, bf16* y) {
  const int heads = c.channels / 64;
  const int64_t index = first_row(), row = index / heads;
  if (row >= c.n_rows) return;
  const int head = static_cast<int>(index % heads), channel = head * 64 + 2 * lane();
  float2 v = c.at(row, channel);
  v.x *= sigmoid(v.x);
  v.y *= sigmoid(v.y);
  if (head < c.unit_heads) {
    const float norm = fmaxf(sqrtf(warp_sum(v.x * v.x + v.y * v.y)), c.eps);
    v.x *= c.length(head) / norm;
    v.y *= c.length(head) / norm;
  }
  set_pair(y + row * c.channels + channel, v.x, v.y);
}

/// The gradient of the convolution's result.
__global__ void conv_unit_backward_kernel(Conv c, const bf16* d_y, bf16* d_conv) {
  const int heads = c.channels / 64;
  const int64_t index = first_row(), row = index / heads;
  if (row >= c.n_rows) return;
  const int head = static_cast<int>(index % heads), channel = head * 64 + 2 * lane();
  const float2 pre = c.at(row, channel);
  const float p0 = sigmoid(pre.x), p1 = sigmoid(pre.y);
  const float2 v = {pre.x * p0, pre.y * p1};
  float2 d = pair(d_y + row * c.channels + channel);
  if (head < c.unit_heads) {
    const float norm = fmaxf(sqrtf(warp_sum(v.x * v.x + v.y * v.y)), c.eps);
    const float along = warp_sum(d.x * v.x + d.y * v.y) / (norm * norm);
    d.x = (d.x - v.x * along) * c.length(head) / norm;
    d.y = (d.y - v.y * along) * c.length(head) / norm;
  }
  set_pair(d_conv + row * c.channels + channel, d.x * (p0 + v.x * (1 - p0)),
           d.y * (p1 + v.y * (1 - p1)));
}

/// d_x, and this block's part of d_weight [channels, 4]. A thread owns two channels; blockIdx.y
/// picks 2 * blockDim.x of them.
__global__ void conv_backward_kernel(Conv c, const bf16* d_conv, bf16* d_x, float* partials) {
  const int channel = 2 * static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (channel >= c.channels) return;
  float w[2][4], d_weight[2][4] = {};
  for (int i = 0; i < 8; ++i) w[i / 4][i % 4] = c.weight[channel * 4 + i];
  for (int64_t row = blockIdx.x; row < c.n_rows; row += gridDim.x) {
    const int64_t time = row % c.n_time;
    const float2 v = pair(c.x + row * c.channels + channel);
    float2 sum = {0, 0};
    for (int tap = 0; tap < 4; ++tap) {
      const int ahead = 3 - tap;
      if (time + ahead >= c.n_time) continue;
      const float2 d = pair(d_conv + (row + ahead) * c.channels + channel);
      sum.x += d.x * w[0][tap];
      sum.y += d.y * w[1][tap];
      d_weight[0][tap] += d.x * v.x;
      d_weight[1][tap] += d.y * v.y;
    }
    set_pair(d_x + row * c.channels + channel, sum.x, sum.y);
  }
  float* out = partials + (static_cast<int64_t>(blockIdx.x) * c.channels + channel) * 4;
  for (int i = 0; i < 8; ++i) out[i] = d_weight[i / 4][i % 4];
}

/// Eight bf16 values a lane: one load.
struct Eight {
  uint4 bits;
  __device__ __nv_bfloat162& pairs(int i) { return reinterpret_cast<__nv_bfloat162*>(&bits)[i]; }
};
__device__ Eight load_eight(const bf16* at) { return {*reinterpret_cast<const uint4*>(at)}; }

__global__ void gated_unit_kernel(const bf16* gate_up, const float* scale, bf16* h, int64_t rows,
                                  int groups) {
  const int64_t index = first_row(), row = index / groups, group = index % groups;
  if (row >= rows) return;
  const int64_t width = groups * 256, at = group * 256 + 8 * lane();
  Eight gate = load_eight(gate_up + row * 2 * width + at);
  Eight up = load_eight(gate_up + (row * 2 + 1) * width + at);
  const float s = scale[index];
  Eight out;
  for (int i = 0; i < 4; ++i) {
    const float2 g = __bfloat1622float2(gate.pairs(i)), u = __bfloat1622float2(up.pairs(i));
    out.pairs(i) =
        __floats2bfloat162_rn(g.x * sigmoid(g.x) * u.x * s, g.y * sigmoid(g.y) * u.y * s);
  }
  *reinterpret_cast<uint4*>(h + row * width + at) = out.bits;
}

__global__ void gated_unit_backward_kernel(const bf16* gate_up, const float* scale, const bf16* d_h,
                                           bf16* d_gate_up, float* d_scale, int64_t rows,
                                           int groups) {
  const int64_t index = first_row(), row = index / groups, group = index % groups;
  if (row >= rows) return;
  const int64_t width = groups * 256, at = group * 256 + 8 * lane();
  const int64_t gate_at = row * 2 * width + at, up_at = gate_at + width;
  Eight gate = load_eight(gate_up + gate_at), up = load_eight(gate_up + up_at);
  Eight d_out = load_eight(d_h + row * width + at);
  const float s = scale[index];
  Eight d_gate, d_up;
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    const float2 g = __bfloat1622float2(gate.pairs(i)), u = __bfloat1622float2(up.pairs(i));
    const float2 d = __bfloat1622float2(d_out.pairs(i));
    const float p0 = sigmoid(g.x), p1 = sigmoid(g.y), a0 = g.x * p0, a1 = g.y * p1;
    sum += d.x * a0 * u.x + d.y * a1 * u.y;
    d_up.pairs(i) = __floats2bfloat162_rn(d.x * s * a0, d.y * s * a1);
    d_gate.pairs(i) = __floats2bfloat162_rn(d.x * s * u.x * (p0 + a0 * (1 - p0)),
                                            d.y * s * u.y * (p1 + a1 * (1 - p1)));
  }
  *reinterpret_cast<uint4*>(d_gate_up + gate_at) = d_gate.bits;
  *reinterpret_cast<uint4*>(d_gate_up + up_at) = d_up.bits;
  sum = warp_sum(sum);
  if (lane() == 0) d_scale[index] = sum;
}

template <typename F>
__device__ float block_reduce(float x, F f) {
  __shared__ float shared[32];
  for (int mask = 16; mask > 0; mask /= 2) x = f(x, __shfl_xor_sync(~0U, x, mask));
  __syncthreads();
  if (lane() == 0) shared[warp()] = x;
  __syncthreads();
  x = shared[0];
  for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i) x = f(x, shared[i]);
  return x;
}

__global__ void cross_entropy_kernel(bf16* logits, const int64_t* target, float* losses,
                                     float weight, int vocabulary) {
  const int64_t row = blockIdx.x, wanted = target[row];
  bf16* y = logits + row * vocabulary;
  const int step = 2 * static_cast<int>(blockDim.x), begin = 2 * static_cast<int>(threadIdx.x);
  const float correct = static_cast<float>(y[wanted]);
  float most = -INFINITY;
  for (int i = begin; i < vocabulary; i += step) {
    const float2 v = pair(y + i);
    most = fmaxf(most, fmaxf(v.x, v.y));
  }
  most = block_reduce(most, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int i = begin; i < vocabulary; i += step) {
    const float2 v = pair(y + i);
    sum += __expf(v.x - most) + __expf(v.y - most);
  }
  sum = block_reduce(sum, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) losses[row] = most + logf(sum) - correct;
  for (int i = begin; i < vocabulary; i += step) {
    const float2 v = pair(y + i);
    set_pair(y + i, weight * (__expf(v.x - most) / sum - (i == wanted ? 1.0F : 0.0F)),
             weight * (__expf(v.y - most) / sum - (i + 1 == wanted ? 1.0F : 0.0F)));
  }
}

}  // namespace

#define CHIMERE_BY_WIDTH(width, name, grid, stream, ...)         \
  switch (width) {                                               \
    case 256:                                                    \
      name<4><<<grid, kThreads, 0, raw(stream)>>>(__VA_ARGS__);  \
      break;                                                     \
    case 512:                                                    \
      name<8><<<grid, kThreads, 0, raw(stream)>>>(__VA_ARGS__);  \
      break;                                                     \
    default:                                                     \
      name<16><<<grid, kThreads, 0, raw(stream)>>>(__VA_ARGS__); \
  }

void rms_norm(const float* x, const float* weight, float eps, void* y, float* scale, int64_t rows,
              int width, Stream stream) {
  CHIMERE_BY_WIDTH(width, rms_norm_kernel, blocks_for(rows), stream, x, weight, eps,
                   static_cast<bf16*>(y), scale, rows)
}

void rms_norm_backward(const float* x, const float* weight, const float* scale, const void* d_y,
                       float* d_x, float* d_weight_partials, int64_t rows, int width,
                       Stream stream) {
  CHIMERE_BY_WIDTH(width, rms_norm_backward_kernel, kPartials, stream, x, weight, scale,
                   static_cast<const bf16*>(d_y), d_x, d_weight_partials, rows)
}

void gated_norm(const void* x, const float* weight, const void* z, float eps, void* y, int64_t rows,
                Stream stream) {
  gated_norm_kernel<<<blocks_for(rows), kThreads, 0, raw(stream)>>>(
      static_cast<const bf16*>(x), weight, static_cast<const bf16*>(z), eps, static_cast<bf16*>(y),
      rows);
}

void gated_norm_backward(const void* x, const float* weight, const void* z, float eps,
                         const void* d_y, void* d_x, void* d_z, float* d_weight_partials,
                         int64_t rows, Stream stream) {
  gated_norm_backward_kernel<<<kPartials, kThreads, 0, raw(stream)>>>(
      static_cast<const bf16*>(x), weight, static_cast<const bf16*>(z), eps,
      static_cast<const bf16*>(d_y), static_cast<bf16*>(d_x), static_cast<bf16*>(d_z),
      d_weight_partials, rows);
}

namespace {
Conv conv_of(const ConvCall& c) {
  return {c.n_batch * c.n_time,          c.n_time, c.channels, c.unit_heads, c.scaled_heads, c.eps,
          static_cast<const bf16*>(c.x), c.weight};
}
}  // namespace

void conv_unit(const ConvCall& call, void* y, Stream stream) {
  const int64_t heads = call.n_batch * call.n_time * (call.channels / 64);
  conv_unit_kernel<<<blocks_for(heads), kThreads, 0, raw(stream)>>>(conv_of(call),
                                                                    static_cast<bf16*>(y));
}

void conv_unit_backward(const ConvCall& call, const void* d_y, void* d_conv, void* d_x,
                        float* d_weight_partials, Stream stream) {
  const Conv c = conv_of(call);
  conv_unit_backward_kernel<<<blocks_for(c.n_rows * (c.channels / 64)), kThreads, 0, raw(stream)>>>(
      c, static_cast<const bf16*>(d_y), static_cast<bf16*>(d_conv));
  const dim3 grid(kPartials, static_cast<unsigned>((c.channels / 2 + kThreads - 1) / kThreads));
  conv_backward_kernel<<<grid, kThreads, 0, raw(stream)>>>(
      c, static_cast<const bf16*>(d_conv), static_cast<bf16*>(d_x), d_weight_partials);
}

void gated_unit(const void* gate_up, const float* scale, void* h, int64_t rows, int groups,
                Stream stream) {
  gated_unit_kernel<<<blocks_for(rows * groups), kThreads, 0, raw(stream)>>>(
      static_cast<const bf16*>(gate_up), scale, static_cast<bf16*>(h), rows, groups);
}

void gated_unit_backward(const void* gate_up, const float* scale, const void* d_h, void* d_gate_up,
                         float* d_scale, int64_t rows, int groups, Stream stream) {
  gated_unit_backward_kernel<<<blocks_for(rows * groups), kThreads, 0, raw(stream)>>>(
      static_cast<const bf16*>(gate_up), scale, static_cast<const bf16*>(d_h),
      static_cast<bf16*>(d_gate_up), d_scale, rows, groups);
}

void cross_entropy(void* logits, const int64_t* target, float* losses, float weight, int64_t rows,
                   int vocabulary, Stream stream) {
  cross_entropy_kernel<<<static_cast<unsigned>(rows), 512, 0, raw(stream)>>>(
      static_cast<bf16*>(logits), target, losses, weight, vocabulary);
}

void round_four_bit_blocks(const float* w, float* out, float share, int64_t blocks, Stream stream) {
  constexpr int kBlocks = 128;  // one thread a block: a cache line of weights
  const auto grid = static_cast<unsigned>((blocks + kBlocks - 1) / kBlocks);
  round_kernel<<<grid, kBlocks, 0, raw(stream)>>>(w, out, share, blocks);
}

}  // namespace chimere::train::cuda
