// Memory for the activations of one step, handed out piece by piece.
#ifndef CHIMERE_MODEL_BUFFER_LAYOUT_H_
#define CHIMERE_MODEL_BUFFER_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "tensor/memory.h"
#include "tensor/view.h"

namespace chimere::model {

/// Hands out 64-byte aligned pieces of a block in sequence; without a block it only measures. A
/// copy continues at the same place: two copies lay out alternatives over the same memory.
class BufferLayout {
 public:
  BufferLayout() = default;
  explicit BufferLayout(uint8_t* base) : base_(base) {}

  template <typename T>
  T* take(int64_t n) {
    uint8_t* const p = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(p);
  }
  /// Contiguous rows.
  MatrixView matrix(int64_t rows, int64_t cols) {
    return {take<float>(rows * cols), rows, cols, cols};
  }

  /// Continues after what `alternative`, a copy of this, has handed out, if that is further.
  void skip_past(const BufferLayout& alternative) { used_ = std::max(used_, alternative.used_); }

  int64_t used() const { return used_; }

 private:
  uint8_t* base_ = nullptr;
  int64_t used_ = 0;
};

/// One range of memory at a fixed address, backed as far as steps have used it.
class Workspace {
 public:
  /// Reserves address space. Errors: kOutOfMemory (address space).
  static Result<Workspace> create(int64_t max_bytes, Memory& memory) {
    Workspace workspace;
    CHIMERE_TRY(workspace.range_, memory.reserve(static_cast<size_t>(max_bytes)));
    return workspace;
  }

  /// Backs the first `bytes` bytes and lays them out anew. Errors: kOutOfMemory.
  Result<BufferLayout> begin(int64_t bytes) {
    CHIMERE_CHECK_OK(range_->commit(static_cast<size_t>(bytes)));
    return BufferLayout(range_->data());
  }

 private:
  std::unique_ptr<MemoryRange> range_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_BUFFER_LAYOUT_H_
