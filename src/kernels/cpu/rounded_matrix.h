// Storage for rows of rounded activations.
#ifndef CHIMERE_KERNELS_CPU_ROUNDED_MATRIX_H_
#define CHIMERE_KERNELS_CPU_ROUNDED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "kernels/cpu/matmul.h"

namespace chimere::kernels::cpu {

/// Memory aligned to 64 bytes that only grows; growing loses its contents.
template <typename T>
class Buffer {
 public:
  T* reserve(size_t n) {
    if (n > size_) {
      data_.reset();
      data_.reset(static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})));
      size_ = n;
    }
    return data_.get();
  }
  T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t{64}); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

class RoundedMatrix {
 public:
  /// Resizes to `rows` rows of n elements; previous contents are lost.
  void resize(int64_t rows, int64_t n, ActivationOrders orders) {
    const auto m = static_cast<size_t>(padded(n));
    const size_t row_bytes = m * 3 + m / 32 * 12 + m / 16 * 4;
    uint8_t* p = bytes_.reserve(static_cast<size_t>(rows) * row_bytes);
    rows_.resize(static_cast<size_t>(rows));
    for (RoundedRow& row : rows_) {
      row.q = reinterpret_cast<int8_t*>(p);
      row.q_by_fours = orders.by_fours ? row.q + m : nullptr;
      row.q_by_eights = orders.by_eights ? row.q + 2 * m : nullptr;
      row.d = reinterpret_cast<float*>(p + 3 * m);
      row.d_sum = row.d + m / 32;
      row.neg_sum32 = reinterpret_cast<int32_t*>(row.d_sum + m / 32);
      row.neg_sum16 = row.neg_sum32 + m / 32;
      p += row_bytes;
    }
  }

  const RoundedRow* rows() const { return rows_.data(); }

 private:
  Buffer<uint8_t> bytes_;
  std::vector<RoundedRow> rows_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_ROUNDED_MATRIX_H_
