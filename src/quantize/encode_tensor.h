// Re-encodes one tensor, a few rows at a time.
#ifndef CHIMERE_QUANTIZE_ENCODE_TENSOR_H_
#define CHIMERE_QUANTIZE_ENCODE_TENSOR_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "quantize/plan.h"

namespace chimere::quantize {

/// Reads rows of a tensor from its file, past the mapping, so that no page of a large model stays
/// in the process. Any thread.
class RowReader {
 public:
  RowReader(const gguf::Reader& file, const gguf::TensorInfo& tensor);

  int64_t row_bytes() const { return row_bytes_; }
  /// The stored bytes of `count` rows. Errors: kIo.
  Status read(int64_t first, int64_t count, std::span<uint8_t> out) const;
  /// The same rows decoded to `out` [count, n_in]; `stored` is scratch memory.
  Status decode(int64_t first, int64_t count, std::vector<uint8_t>& stored,
                std::span<float> out) const;

 private:
  const gguf::TensorInfo& tensor_;
  const MappedFile* file_ = nullptr;  ///< nullptr: the tensor lies in memory
  size_t offset_ = 0;
  int64_t row_bytes_ = 0;
};

/// Receives the tensor's bytes in order, and how many rows of it they complete.
using TakeBytes = std::function<Status(std::span<const uint8_t> bytes, int64_t rows_done)>;

/// Encodes rows from `first_row` on. `importance`: [matrices, n_in], or empty. The bytes do not
/// depend on the number of threads. Errors: kInvalidData (numbers that the format cannot hold),
/// kIo, those of `take`.
Status encode_tensor(const gguf::Reader& file, const PlannedTensor& tensor,
                     std::span<const float> importance, int64_t first_row, ThreadPool& pool,
                     const TakeBytes& take);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_ENCODE_TENSOR_H_
