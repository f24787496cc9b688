// What an instruction set provides for matrix products: rounding of activations and, for each
// weight type, products of consecutive weight rows with a set of activation rows. Internal to
// LinearEngine.
//
// Arguments are plain pointers because files that are compiled for one instruction set must not
// instantiate inline library functions: the linker could use those on processors without it.
#ifndef CHIMERE_KERNELS_CPU_MATMUL_H_
#define CHIMERE_KERNELS_CPU_MATMUL_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels {
enum class CpuIsa;  // kernels/api.h
}

namespace chimere::kernels::cpu {

/// Arrays of a rounded row are zero-padded to a multiple of this many elements.
inline constexpr int64_t kRowPadding = 512;
[[gnu::always_inline]] constexpr int64_t padded(int64_t n) {
  return (n + kRowPadding - 1) / kRowPadding * kRowPadding;
}

/// A row of n activations after rule 3 of docs/numerics.md.
struct RoundedRow {
  int8_t* q = nullptr;  ///< [padded(n)]
  /// The same, with element 4 i + c of a super-block of 256 at 64 c + i, for codebooks whose
  /// entries are unpacked element by element; nullptr if no kernel reads it.
  int8_t* q_by_fours = nullptr;
  /// The same, with element 32 g + 8 k + j of a super-block of 256 at 64 k + 8 g + j, so that sums
  /// over groups need no cross-lane work; nullptr if no kernel reads it.
  int8_t* q_by_eights = nullptr;
  float* d = nullptr;            ///< [padded(n) / 32]
  float* d_sum = nullptr;        ///< [padded(n) / 32] d · float(Σq)
  int32_t* neg_sum32 = nullptr;  ///< [padded(n) / 32] −Σq of each 32
  int32_t* neg_sum16 = nullptr;  ///< [padded(n) / 16] −Σq of each 16
};

/// y[r][o] = (or +=) weight row o · x[r], for o < n_out, r < n_rows.
struct IntegerProduct {
  const uint8_t* w = nullptr;
  int64_t w_stride = 0;  ///< bytes from one weight row to the next
  int64_t n_in = 0;
  int64_t n_out = 0;
  const RoundedRow* x = nullptr;
  float* const* y = nullptr;
  int64_t n_rows = 0;
  bool accumulate = false;
  /// Where the weights of the next product probably begin, to be brought into the cache meanwhile;
  /// nullptr: unknown.
  const uint8_t* next_w = nullptr;
  uint8_t* scratch = nullptr;  ///< scratch_bytes(n_in) bytes at a multiple of 64
};

struct FloatProduct {
  const uint8_t* w = nullptr;
  int64_t w_stride = 0;
  int64_t n_in = 0;
  int64_t n_out = 0;
  const float* const* x = nullptr;
  float* const* y = nullptr;
  int64_t n_rows = 0;
  bool accumulate = false;
};

/// y[r][o] = fma(scale, v, y[r][o]) with the chain v = fma(b[j][o], u[r][j], v) from +0, for
/// o < n_out, r < n_rows: the second factor of an adapter, transposed.
struct LowRankProduct {
  DType type = DType::kF32;  ///< kF32, kF16 or kBF16
  const uint8_t* b = nullptr;
  int64_t b_stride = 0;  ///< bytes from one j to the next
  int64_t rank = 0;
  int64_t n_out = 0;
  const float* const* u = nullptr;
  float* const* y = nullptr;
  int64_t n_rows = 0;
  float scale = 1;
};

/// Space for 16 unpacked rows (integers, then a scale and a minimum per 16), plus tile buffers.
constexpr int64_t scratch_bytes(int64_t n_in) {
  return 16 * padded(n_in) + 2 * 16 * 4 * (padded(n_in) / 16) + 32768;
}

/// q, q_by_fours or q_by_eights of a RoundedRow.
enum class ActivationOrder : uint8_t { kNatural, kByFours, kByEights };
/// Which orders, besides the natural one, a set of kernels reads.
struct ActivationOrders {
  bool by_fours = false;
  bool by_eights = false;
};

using IntegerKernel = void (*)(const IntegerProduct&);
using FloatKernel = void (*)(const FloatProduct&);

/// Size of the kernel tables, which are indexed by type.
inline constexpr size_t kKernelTypes = static_cast<size_t>(DType::kIQ5_K) + 1;
[[gnu::always_inline]] constexpr size_t kernel_index(DType t) { return static_cast<size_t>(t); }

struct MatmulKernels {
  /// Fills `out` from x [n], padding included; skips orders that are nullptr.
  void (*round)(const float* x, int64_t n, const RoundedRow& out) = nullptr;
  /// By type (kernel_index()); nullptr for types that take the float dot product.
  IntegerKernel integer[kKernelTypes] = {};
  /// Of weights as UnpackedIq3S; nullptr where they would not be faster than IQ3_S.
  IntegerKernel unpacked_iq3_s = nullptr;
  ActivationOrder order[kKernelTypes] = {};  ///< the order of a RoundedRow that the kernel reads
  FloatKernel f32 = nullptr;
  FloatKernel f16 = nullptr;
  FloatKernel bf16 = nullptr;
  /// h[i] = f(h[i]) * up[i], or f(h[i]) if up is nullptr
  void (*activate)(Activation f, float* h, const float* up, int64_t n) = nullptr;
  /// total[i] = fma(weight, out[i], total[i])
  void (*add_scaled)(float* total, float weight, const float* out, int64_t n) = nullptr;
  void (*add_low_rank)(const LowRankProduct& p) = nullptr;
};

namespace generic {
const MatmulKernels& matmul_kernels();
void product_f32(const FloatProduct& p);
void product_f16(const FloatProduct& p);
void product_bf16(const FloatProduct& p);
void activate(Activation f, float* h, const float* up, int64_t n);
void add_scaled(float* total, float weight, const float* out, int64_t n);
void add_low_rank(const LowRankProduct& p);
}  // namespace generic
namespace avx2 {
const MatmulKernels& matmul_kernels();
/// The same with byte dot products, in the encoding that this processor supports.
const MatmulKernels& vnni_matmul_kernels();
void product_f32(const FloatProduct& p);
void product_f16(const FloatProduct& p);
void product_bf16(const FloatProduct& p);
void activate(Activation f, float* h, const float* up, int64_t n);
void add_scaled(float* total, float weight, const float* out, int64_t n);
void add_low_rank(const LowRankProduct& p);
}  // namespace avx2
namespace avx512 {
const MatmulKernels& matmul_kernels();
void product_f32(const FloatProduct& p);
void product_f16(const FloatProduct& p);
void product_bf16(const FloatProduct& p);
void activate(Activation f, float* h, const float* up, int64_t n);
void add_scaled(float* total, float weight, const float* out, int64_t n);
void add_low_rank(const LowRankProduct& p);
}  // namespace avx512
namespace neon {
/// `isa`: kNeon, kDotprod or kI8mm.
const MatmulKernels& matmul_kernels(CpuIsa isa);
void product_f32(const FloatProduct& p);
void product_f16(const FloatProduct& p);
void product_bf16(const FloatProduct& p);
void activate(Activation f, float* h, const float* up, int64_t n);
void add_scaled(float* total, float weight, const float* out, int64_t n);
void add_low_rank(const LowRankProduct& p);
}  // namespace neon

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_MATMUL_H_
