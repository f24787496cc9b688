// Weights in device memory. Host threads pack a piece while the previous piece is copied.
#ifndef CHIMERE_KERNELS_CUDA_WEIGHT_STORE_H_
#define CHIMERE_KERNELS_CUDA_WEIGHT_STORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/cuda/device/device.h"
#include "tensor/memory.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Device memory that lives as long as the store. Also a Memory whose ranges are cut from one large
/// range, so that small tables do not take a device page each.
class WeightStore final : public Memory {
 public:
  /// `unpacked`: see packed_type(). `on_upload`: called with the bytes of weights submitted so far,
  /// each time a copy is submitted.
  WeightStore(Device& device, ThreadPool& pool, bool unpacked,
              std::function<void(int64_t)> on_upload = {})
      : device_(device), pool_(pool), unpacked_(unpacked), on_upload_(std::move(on_upload)) {}

  /// Packs and uploads a matrix in host memory. Errors: kOutOfMemory, kIo.
  Result<WeightView> place(const WeightView& w);
  Result<const float*> place_floats(const float* values, int64_t n);
  /// Waits for the copies and frees the staging memory. Call it after the last weight.
  Status finish();

  /// Bytes of device memory in use.
  int64_t bytes() const { return bytes_; }

  bool on_host() const override { return false; }
  /// Committed at once; freed with the store only.
  Result<std::unique_ptr<MemoryRange>> reserve(size_t bytes) override;
  Status write(void* to, const void* from_host, size_t bytes) override {
    return device_.write(to, from_host, bytes);
  }
  Status read(void* to_host, const void* from, size_t bytes) override {
    return device_.read(to_host, from, bytes);
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    return device_.copy(to, from, bytes);
  }
  Status clear(void* to, size_t bytes) override { return device_.clear(to, bytes); }

 private:
  Result<uint8_t*> allocate(size_t bytes);
  void uploaded(size_t bytes);
  /// Pinned memory that no copy in flight reads.
  Result<uint8_t*> staging(size_t bytes);

  Device& device_;
  ThreadPool& pool_;
  bool unpacked_;
  std::function<void(int64_t)> on_upload_;
  int64_t uploaded_ = 0;
  std::vector<std::unique_ptr<MemoryRange>> ranges_;
  size_t left_ = 0;  ///< in the last range
  uint8_t* next_ = nullptr;
  int64_t bytes_ = 0;
  std::array<std::unique_ptr<Pinned>, 2> staging_;
  size_t turn_ = 0;    ///< index of the buffer that is filled
  size_t staged_ = 0;  ///< bytes in it
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_WEIGHT_STORE_H_
