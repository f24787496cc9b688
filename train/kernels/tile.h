// Work of one thread block on 64 x 64 tiles in shared memory. The same source runs on a CPU, one
// tile after another, so that algorithms written with it can be tested without a GPU.
#ifndef CHIMERE_TRAIN_KERNELS_TILE_H_
#define CHIMERE_TRAIN_KERNELS_TILE_H_

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <mma.h>

#include <type_traits>
#define CHIMERE_BLOCK __device__ inline
#define CHIMERE_UNROLL _Pragma("unroll")
#else
#define CHIMERE_BLOCK inline
#define CHIMERE_UNROLL
#endif

namespace chimere::train {

constexpr int kTile = 64;
constexpr int kStride = kTile + 4;  ///< floats between rows: rows start in different banks
constexpr int kTileFloats = kTile * kStride;

#ifdef __CUDACC__
using Storage = __nv_bfloat16;  ///< type of stored activations
#else
using Storage = float;
#endif

/// Calls f(i) for all i < n in any order, then waits for the whole block. Calls must not read what
/// others write.
template <typename F>
CHIMERE_BLOCK void for_each(int n, F f) {
#ifdef __CUDACC__
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) f(i);
  __syncthreads();
#else
  for (int i = 0; i < n; ++i) f(i);
#endif
}

/// Calls f(element, row, column) for the elements of a tile.
template <typename F>
CHIMERE_BLOCK void for_tile(float* tile, F f) {
  for_each(kTile * kTile,
           [=](int n) { f(tile[n / kTile * kStride + n % kTile], n / kTile, n % kTile); });
}

CHIMERE_BLOCK float element(const float* tile, int row, int column) {
  return tile[row * kStride + column];
}

/// c = op(a) op(b), or c + op(a) op(b); c is neither a nor b. TF32 products on a GPU.
template <bool kTransposeA, bool kTransposeB, bool kAdd = false>
CHIMERE_BLOCK void multiply(float* c, const float* a, const float* b) {
#ifdef __CUDACC__
  namespace w = nvcuda::wmma;
  using A = std::conditional_t<kTransposeA, w::col_major, w::row_major>;
  using B = std::conditional_t<kTransposeB, w::col_major, w::row_major>;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int part = static_cast<int>(threadIdx.x) / 32; part < 16; part += warps) {
    const int row = part / 4 * 16, column = part % 4 * 16;
    w::fragment<w::accumulator, 16, 16, 8, float> sum;
    if (kAdd) {
      w::load_matrix_sync(sum, c + row * kStride + column, kStride, w::mem_row_major);
    } else {
      w::fill_fragment(sum, 0.0F);
    }
    for (int k = 0; k < kTile; k += 8) {
      w::fragment<w::matrix_a, 16, 16, 8, w::precision::tf32, A> left;
      w::fragment<w::matrix_b, 16, 16, 8, w::precision::tf32, B> right;
      w::load_matrix_sync(left, a + (kTransposeA ? k * kStride + row : row * kStride + k), kStride);
      w::load_matrix_sync(right, b + (kTransposeB ? column * kStride + k : k * kStride + column),
                          kStride);
      for (int i = 0; i < left.num_elements; ++i) left.x[i] = w::__float_to_tf32(left.x[i]);
      for (int i = 0; i < right.num_elements; ++i) right.x[i] = w::__float_to_tf32(right.x[i]);
      w::mma_sync(sum, left, right, sum);
    }
    w::store_matrix_sync(c + row * kStride + column, sum, kStride, w::mem_row_major);
  }
  __syncthreads();
#else
  for (int i = 0; i < kTile; ++i) {
    for (int j = 0; j < kTile; ++j) {
      float sum = kAdd ? c[i * kStride + j] : 0.0F;
      for (int k = 0; k < kTile; ++k) {
        sum += (kTransposeA ? element(a, k, i) : element(a, i, k)) *
               (kTransposeB ? element(b, j, k) : element(b, k, j));
      }
      c[i * kStride + j] = sum;
    }
  }
#endif
}

/// Adds sign * sum over columns of f(row, column) to out[row], or with kColumns the sum over rows
/// to out[column]. `partial` has 4 * 64 floats.
template <bool kColumns, typename F>
CHIMERE_BLOCK void add_sums(float* out, float* partial, float sign, F f) {
  for_each(4 * kTile, [=](int n) {
    const int at = kColumns ? n % kTile : n / 4, part = kColumns ? n / kTile : n % 4;
    float sum = 0;
    for (int i = part * 16; i < part * 16 + 16; ++i) sum += kColumns ? f(i, at) : f(at, i);
    partial[part * kTile + at] = sum;
  });
  for_each(kTile, [=](int i) {
    out[i] +=
        sign * (partial[i] + partial[kTile + i] + partial[2 * kTile + i] + partial[3 * kTile + i]);
  });
}

/// inverse = (I + diag(scale) lower)^-1 of the strictly lower triangle of `lower`. Diagonal blocks
/// of 16 by substitution, the rest by blocks: exact where a product of powers would lose all
/// digits. `scratch` is a tile.
CHIMERE_BLOCK void invert_unit_lower(float* inverse, const float* lower, const float* scale,
                                     float* scratch) {
  for_tile(inverse, [](float& x, int, int) { x = 0; });
  for_each(kTile, [=](int column) {
    const int base = column / 16 * 16, j = column % 16;
    float x[16];
    CHIMERE_UNROLL
    for (int i = 0; i < 16; ++i) {
      float sum = i == j ? 1.0F : 0.0F;
      CHIMERE_UNROLL
      for (int k = 0; k < i; ++k)
        sum -= scale[base + i] * element(lower, base + i, base + k) * x[k];
      x[i] = sum;
      inverse[(base + i) * kStride + column] = sum;
    }
  });
  for (int size = 16; size < kTile; size *= 2) {
    // [[P, 0], [L, Q]]^-1 has -Q^-1 L P^-1 below.
    const int pairs = kTile / (2 * size), cells = size * size;
    for_each(pairs * cells, [=](int n) {
      const int base = n / cells * 2 * size, i = n % cells / size, j = n % size, low = base + size;
      float sum = 0;
      for (int k = 0; k < size; ++k) {
        sum += scale[low + i] * element(lower, low + i, base + k) *
               element(inverse, base + k, base + j);
      }
      scratch[(low + i) * kStride + base + j] = sum;
    });
    for_each(pairs * cells, [=](int n) {
      const int base = n / cells * 2 * size, i = n % cells / size, j = n % size, low = base + size;
      float sum = 0;
      for (int k = 0; k < size; ++k) {
        sum -= element(inverse, low + i, low + k) * element(scratch, low + k, base + j);
      }
      inverse[(low + i) * kStride + base + j] = sum;
    });
  }
}

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_KERNELS_TILE_H_
