#include "kernels/cuda/scratch.h"

namespace chimere::kernels::cuda {
namespace {

/// Reserved address space; only what is used is backed by memory.
constexpr size_t kMaxBytes = size_t{16} << 30;

}  // namespace

Status Scratch::resize(int64_t bytes) {
  if (bytes <= bytes_) return {};
  if (range_ == nullptr) {
    CHIMERE_TRY(range_, device_.reserve(kMaxBytes));
  }
  CHIMERE_CHECK_OK(range_->commit(static_cast<size_t>(bytes)));
  bytes_ = bytes;
  return {};
}

Status Scratch::resize_zeroed(int64_t bytes) {
  const int64_t before = bytes_;
  CHIMERE_CHECK_OK(resize(bytes));
  if (bytes <= before) return {};
  return device_.clear(data() + before, static_cast<size_t>(bytes - before));
}

}  // namespace chimere::kernels::cuda
