#include "kernels/cuda/weight_store.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/pack_weights.h"

namespace chimere::kernels::cuda {
namespace {

constexpr size_t kAlign = 256;
/// Size of the ranges that small pieces are cut from; larger pieces have a range of their own.
constexpr size_t kRangeBytes = size_t{32} << 20;
constexpr size_t kStagingBytes = size_t{32} << 20;

class Piece final : public MemoryRange {
 public:
  Piece(uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Status commit(size_t bytes) override {
    if (bytes <= bytes_) return {};
    return out_of_memory("cannot use " + std::to_string(bytes) + " bytes of a range of " +
                         std::to_string(bytes_));
  }
  uint8_t* data() const override { return data_; }

 private:
  uint8_t* data_;
  size_t bytes_;
};

}  // namespace

Result<uint8_t*> WeightStore::allocate(size_t bytes) {
  const size_t whole = (bytes + kAlign - 1) / kAlign * kAlign;
  if (whole > left_) {
    const size_t range = std::max(whole, kRangeBytes);
    CHIMERE_TRY(std::unique_ptr<MemoryRange> memory, device_.reserve(range));
    CHIMERE_CHECK_OK(memory->commit(range));
    bytes_ += static_cast<int64_t>(range);
    ranges_.push_back(std::move(memory));
    if (whole == range) return ranges_.back()->data();
    next_ = ranges_.back()->data();
    left_ = range;
  }
  uint8_t* const piece = next_;
  next_ += whole;
  left_ -= whole;
  return piece;
}

Result<std::unique_ptr<MemoryRange>> WeightStore::reserve(size_t bytes) {
  CHIMERE_TRY(uint8_t * data, allocate(bytes));
  return std::unique_ptr<MemoryRange>(std::make_unique<Piece>(data, bytes));
}

Result<uint8_t*> WeightStore::staging(size_t bytes) {
  if (staged_ + bytes > kStagingBytes) {
    turn_ = (turn_ + 1) % staging_.size();
    staged_ = 0;
    // The other buffer was being filled while this one was copied, so the wait is short.
    if (staging_[turn_] != nullptr) CHIMERE_CHECK_OK(device_.stream().synchronize());
  }
  if (staging_[turn_] == nullptr) {
    CHIMERE_TRY(staging_[turn_], device_.pinned(kStagingBytes));
  }
  uint8_t* const at = staging_[turn_]->data() + staged_;
  staged_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return at;
}

Result<WeightView> WeightStore::place(const WeightView& w) {
  const DType type = packed_type(w.type, unpacked_);
  const int64_t row_bytes = packed_row_bytes(type, w.n_in);
  CHIMERE_TRY(uint8_t * to, allocate(static_cast<size_t>(w.n_out * row_bytes)));
  const int64_t rows_at_once =
      std::max<int64_t>(1, static_cast<int64_t>(kStagingBytes) / row_bytes);
  for (int64_t row = 0; row < w.n_out; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, w.n_out - row);
    CHIMERE_TRY(uint8_t * from, staging(static_cast<size_t>(rows * row_bytes)));
    const int64_t grain = std::max<int64_t>(1, (int64_t{64} << 10) / row_bytes);
    pool_.parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
      pack_rows(w, row + begin, end - begin, from + begin * row_bytes, unpacked_);
    });
    device_.stream().copy(to + row * row_bytes, from, static_cast<size_t>(rows * row_bytes));
    uploaded(static_cast<size_t>(rows * row_bytes));
  }
  return WeightView{type, w.n_out, w.n_in, to, w.target, w.target_row};
}

Result<const float*> WeightStore::place_floats(const float* values, int64_t n) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  CHIMERE_TRY(uint8_t * to, allocate(bytes));
  CHIMERE_CHECK_OK(device_.write(to, values, bytes));
  uploaded(bytes);
  return reinterpret_cast<const float*>(to);
}

void WeightStore::uploaded(size_t bytes) {
  uploaded_ += static_cast<int64_t>(bytes);
  if (on_upload_) on_upload_(uploaded_);
}

Status WeightStore::finish() {
  on_upload_ = {};
  if (staging_[0] == nullptr) return {};
  CHIMERE_CHECK_OK(device_.stream().synchronize());
  for (auto& s : staging_) s.reset();
  turn_ = 0;
  staged_ = 0;
  return {};
}

}  // namespace chimere::kernels::cuda
