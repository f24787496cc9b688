// Non-owning views of device memory. A view never allocates and never frees.
#ifndef CHIMERE_TENSOR_VIEW_H_
#define CHIMERE_TENSOR_VIEW_H_

#include <cstdint>

#include "tensor/dtype.h"

namespace chimere {

/// Activations, f32, [rows, cols], row-major; `stride` elements from one row to the next.
struct MatrixView {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  float* row(int64_t r) const { return data + r * stride; }
  /// Rows [begin, begin + count).
  MatrixView rows_from(int64_t begin, int64_t count) const {
    return {row(begin), count, cols, stride};
  }
};

struct ConstMatrixView {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  ConstMatrixView() = default;
  ConstMatrixView(const float* d, int64_t r, int64_t c, int64_t s)
      : data(d), rows(r), cols(c), stride(s) {}
  ConstMatrixView(const MatrixView& m)  // NOLINT(google-explicit-constructor)
      : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}
  const float* row(int64_t r) const { return data + r * stride; }
};

/// A weight matrix [n_out, n_in], row-major, each row consecutive blocks of `type` (n_in is a
/// multiple of the block's elements). Applied as y = W x. In GGUF order its dimensions are (n_in,
/// n_out).
struct WeightView {
  DType type = DType::kF32;
  int64_t n_out = 0;
  int64_t n_in = 0;
  const void* data = nullptr;
  /// Which of the matrices that adapters may change this is, or is rows of; -1: none.
  int32_t target = -1;
  int64_t target_row = 0;  ///< the target's row that is row 0 here

  int64_t bytes() const { return n_out * row_bytes(type, n_in); }
  const uint8_t* row(int64_t o) const {
    return static_cast<const uint8_t*>(data) + o * row_bytes(type, n_in);
  }
  /// Rows [begin, begin + count); empty if the view is.
  WeightView rows_from(int64_t begin, int64_t count) const {
    if (data == nullptr) return {};
    return {type, count, n_in, row(begin), target, target_row + begin};
  }
};

}  // namespace chimere

#endif  // CHIMERE_TENSOR_VIEW_H_
