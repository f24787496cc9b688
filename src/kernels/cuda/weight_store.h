// Weights on a device: packed by the host's threads while what was packed before is copied.
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

/// Pieces of a device's memory that stay until the store goes: also a Memory whose ranges are cut
/// from one large one, so that small tables do not take a page of the device each.
class WeightStore final : public Memory {
 public:
  /// `wide`: as packed_type() has it. `on_upload`: told the bytes of weights that were placed, each
  /// time more are on their way.
  WeightStore(Device& device, ThreadPool& pool, bool unpacked,
              std::function<void(int64_t)> on_upload = {})
      : device_(device), pool_(pool), unpacked_(unpacked), on_upload_(std::move(on_upload)) {}

  /// The matrix (in host memory), packed. Errors: kOutOfMemory, kIo.
  Result<WeightView> place(const WeightView& w);
  Result<const float*> place_floats(const float* values, int64_t n);
  /// Waits for the copies; the staging memory goes back. To be called when the last weight is
  /// placed.
  Status finish();

  /// Bytes of the device in use.
  int64_t bytes() const { return bytes_; }

  bool on_host() const override { return false; }
  /// Committed at once; never given back.
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
  /// Pinned memory that no copy reads any more.
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
  size_t turn_ = 0;    ///< which of the two is filled
  size_t staged_ = 0;  ///< bytes in it
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_WEIGHT_STORE_H_
