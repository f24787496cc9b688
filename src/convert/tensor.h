// Tensors that are computed row by row when they are written, and the operations that converters
// need. Values are f32. Where the source is f16, each operation rounds to f16, as llama.cpp's
// converter does.
#ifndef CHIMERE_CONVERT_TENSOR_H_
#define CHIMERE_CONVERT_TENSOR_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "convert/safetensors.h"
#include "tensor/dtype.h"

namespace chimere::convert {

struct Tensor {
  std::vector<int64_t> shape;  ///< outermost dimension first; at least one
  bool half = false;           ///< operations round to f16
  /// Writes one row (the elements of the last dimension); rows of all outer dimensions are
  /// numbered in order.
  std::function<void(int64_t row, std::span<float> out)> read_row;
  /// If set, files of every type hold the tensor as `stored`, with these bytes of its rows.
  std::function<void(int64_t row, std::span<uint8_t> out)> read_stored = nullptr;
  DType stored = DType::kF32;

  int64_t width() const { return shape.back(); }
  int64_t rows() const;
  int64_t elements() const { return rows() * width(); }
};

/// The values of a tensor in a file, which must outlive the result; a scalar gets one dimension.
/// Errors: kUnsupported if the type is not F32, F16 or BF16.
Result<Tensor> source(const SourceTensor& tensor);

/// Rows of MXFP4: `blocks` has 16 bytes for 32 elements, the even ones in the low halves, `scales`
/// a byte (E8M0) for each of these; [..., n, 16] and [..., n] become [..., 32 n]. Both must outlive
/// the result. Errors: kInvalidData if a type or shape is another.
Result<Tensor> mxfp4_source(const SourceTensor& blocks, const SourceTensor& scales);

/// Values that are in memory.
Tensor literal(std::vector<int64_t> shape, std::vector<float> values);

/// The same elements in another shape. Error: another number of elements.
Result<Tensor> reshaped(Tensor tensor, std::vector<int64_t> shape);
/// Row i of the result is row order[i]; `shape` has the rows that `order` counts. The rows stay as
/// they are stored.
Tensor with_rows(Tensor tensor, std::vector<int64_t> order, std::vector<int64_t> shape);
/// Column i of the result is column order[i].
Tensor with_columns(Tensor tensor, std::vector<int64_t> order);
/// Elements of a vector, or rows of a matrix. Error: another number of dimensions.
Result<Tensor> reordered(Tensor tensor, std::vector<int64_t> order);
/// Rows [begin, end) of a matrix, or elements of a vector. Error: outside.
Result<Tensor> slice(Tensor tensor, int64_t begin, int64_t end);
/// One after the other along a new outermost dimension. Error: shapes differ.
Result<Tensor> stacked(std::vector<Tensor> parts);
/// Matrices, one below the other. Error: widths differ.
Result<Tensor> concatenated(std::vector<Tensor> parts);
/// The last two dimensions exchanged; holds one matrix in memory at a time.
Result<Tensor> transposed(Tensor tensor);
/// f(x) for each element.
Tensor mapped(Tensor tensor, std::function<float(float)> f);
/// x times factor(row), in f32.
Tensor scaled_rows(Tensor tensor, std::function<float(int64_t)> factor);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_TENSOR_H_
