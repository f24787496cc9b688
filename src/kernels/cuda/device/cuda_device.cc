#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device/cuda_stream.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/driver.h"
#include "kernels/cuda/device/modules.h"
#include "kernels/cuda/device/profile.h"

namespace chimere::kernels::cuda {
namespace {

using driver::Address;
using driver::Api;

/// Lowest compute capability that every fat binary has code for.
constexpr int kMinCapability = 80;
/// Smallest piece to map: mapping takes the driver about 0.1 ms, whatever the size.
constexpr size_t kMinPiece = size_t{16} << 20;

Error out_of_gpu_memory(const Api& api, size_t bytes, int result) {
  return out_of_memory("cannot allocate " + std::to_string(bytes) + " bytes of GPU memory (" +
                       driver::error_text(api, result) +
                       "); use a smaller context (--ctx), smaller cache types (--cache-k, "
                       "--cache-v) or a smaller model");
}

/// A range of GPU addresses, mapped to memory in pieces.
class CudaMemoryRange final : public MemoryRange {
 public:
  CudaMemoryRange(const Api& api, driver::Context* context, int gpu, size_t granule,
                  MemoryAccount& account)
      : api_(api), context_(context), granule_(granule), account_(account) {
    properties_.location.id = gpu;
  }
  ~CudaMemoryRange() override {
    if (base_ == 0) return;
    use_context();
    Address at = base_;
    for (const Piece& piece : pieces_) {
      api_.memory_unmap(at, piece.bytes);
      api_.memory_release(piece.handle);
      at += piece.bytes;
    }
    api_.address_free(base_, reserved_);
    account_.give_back(committed_);
  }
  CudaMemoryRange(const CudaMemoryRange&) = delete;
  CudaMemoryRange& operator=(const CudaMemoryRange&) = delete;

  Status reserve(size_t bytes) {
    if (bytes == 0) return {};
    reserved_ = round_up(bytes);
    const int result = api_.address_reserve(&base_, reserved_, 0, 0, 0);
    if (result == driver::kSuccess) return {};
    base_ = 0;
    return out_of_gpu_memory(api_, bytes, result);
  }

  Status commit(size_t bytes) override {
    if (bytes <= committed_) return {};
    if (bytes > reserved_) {
      return out_of_memory("cannot use " + std::to_string(bytes) + " bytes of a range of " +
                           std::to_string(reserved_));
    }
    use_context();
    const size_t more = round_up(bytes) - committed_;
    CHIMERE_CHECK_OK(account_.take(more));
    const int result = back(more);
    if (result == driver::kSuccess) return {};
    account_.give_back(more);
    return out_of_gpu_memory(api_, more, result);
  }
  uint8_t* data() const override { return reinterpret_cast<uint8_t*>(base_); }

 private:
  struct Piece {
    driver::MemoryHandle handle;
    size_t bytes;
  };
  /// Maps memory to the next `bytes` addresses.
  int back(size_t bytes) {
    driver::MemoryHandle piece = 0;
    int result = api_.memory_create(&piece, bytes, &properties_, 0);
    if (result != driver::kSuccess) return result;
    const Address at = base_ + committed_;
    result = api_.memory_map(at, bytes, 0, piece, 0);
    if (result == driver::kSuccess) {
      driver::AccessDescription access;
      access.location = properties_.location;
      result = api_.memory_access(at, bytes, &access, 1);
      if (result != driver::kSuccess) api_.memory_unmap(at, bytes);
    }
    if (result != driver::kSuccess) {
      api_.memory_release(piece);
      return result;
    }
    pieces_.push_back({piece, bytes});
    committed_ += bytes;
    return driver::kSuccess;
  }
  size_t round_up(size_t n) const { return (n + granule_ - 1) / granule_ * granule_; }
  void use_context() const { driver::use_context(api_, context_); }

  const Api& api_;
  driver::Context* context_;
  size_t granule_;
  MemoryAccount& account_;
  driver::AllocationProperties properties_;
  Address base_ = 0;
  size_t reserved_ = 0;
  size_t committed_ = 0;
  std::vector<Piece> pieces_;
};

class CudaPinned final : public Pinned {
 public:
  CudaPinned(const Api& api, void* data) : api_(api), data_(data) {}
  ~CudaPinned() override { api_.host_free(data_); }
  CudaPinned(const CudaPinned&) = delete;
  CudaPinned& operator=(const CudaPinned&) = delete;
  uint8_t* data() const override { return static_cast<uint8_t*>(data_); }

 private:
  const Api& api_;
  void* data_;
};

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(const Api& api, int number, Profile profile);
  ~CudaDevice() override {
    stream_.reset();
    side_.reset();
    reader_.reset();
    if (context_ != nullptr) api_.context_release(device_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const DeviceFacts& facts() const override { return facts_; }
  Stream& stream() override { return *stream_; }
  Result<Stream*> side_stream() override;
  Result<int64_t> free_bytes() override;
  Result<std::unique_ptr<Pinned>> pinned(size_t bytes) override;
  Result<std::unique_ptr<MemoryRange>> reserve(size_t bytes) override;

  Status write(void* to, const void* from_host, size_t bytes) override {
    // For memory that is not pinned, the driver copies before it returns.
    stream_->copy(to, from_host, bytes);
    return stream_->synchronize();
  }
  Status read(void* to_host, const void* from, size_t bytes) override {
    const std::lock_guard<std::mutex> lock(reader_mutex_);
    reader_->copy(to_host, from, bytes);
    return reader_->synchronize();
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    stream_->copy(to, from, bytes);
    return {};
  }
  Status clear(void* to, size_t bytes) override {
    stream_->clear(to, bytes);
    return {};
  }

 private:
  explicit CudaDevice(const Api& api) : api_(api) {}
  Status read_facts(Profile profile);

  const Api& api_;
  driver::DeviceNumber device_ = 0;
  driver::Context* context_ = nullptr;
  size_t granule_ = 0;
  DeviceFacts facts_;
  CudaLimits limits_;
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<CudaStream> side_;
  std::mutex reader_mutex_;
  /// Used by read() only, so that threads do not share the main stream.
  std::unique_ptr<CudaStream> reader_;
};

Status CudaDevice::read_facts(Profile profile) {
  std::array<char, 128> name{};
  size_t memory = 0;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  int shared = 0;
  int all_shared = 0;
  api_.device_name(name.data(), name.size(), device_);
  api_.device_memory(&memory, device_);
  api_.device_attribute(&major, driver::kCapabilityMajor, device_);
  api_.device_attribute(&minor, driver::kCapabilityMinor, device_);
  api_.device_attribute(&multiprocessors, driver::kMultiprocessorCount, device_);
  api_.device_attribute(&shared, driver::kSharedMemoryPerBlockOptin, device_);
  api_.device_attribute(&all_shared, driver::kSharedMemoryPerMultiprocessor, device_);
  DeviceFacts own;
  own.name = name.data();
  own.compute_capability = 10 * major + minor;
  own.multiprocessors = multiprocessors;
  own.shared_bytes = shared;
  own.memory_bytes = static_cast<int64_t>(memory);
  facts_ = facts_under(profile, own);
  if (const ProfileLimits* const limits = limits_of(profile)) {
    limits_ = {false, limits->shared_bytes, shared_carveout(*limits, all_shared)};
  }
  if (facts_.own_capability >= kMinCapability) return {};
  return unsupported("the GPU " + facts_.name + " has compute capability " + std::to_string(major) +
                     "." + std::to_string(minor) +
                     "; 8.0 or later is required. Use --backend cpu.");
}

Result<std::unique_ptr<Device>> CudaDevice::open(const Api& api, int number, Profile profile) {
  int count = 0;
  api.device_count(&count);
  if (number < 0 || number >= count) {
    return unsupported("there is no GPU " + std::to_string(number) + "; the number of GPUs is " +
                       std::to_string(count) + ". Use --backend cpu.");
  }
  std::unique_ptr<CudaDevice> gpu(new CudaDevice(api));
  api.device_get(&gpu->device_, number);
  CHIMERE_CHECK_OK(gpu->read_facts(profile));
  int result = api.context_retain(&gpu->context_, gpu->device_);
  if (result == driver::kSuccess) driver::use_context(api, gpu->context_);
  driver::AllocationProperties properties;
  properties.location.id = gpu->device_;
  if (result == driver::kSuccess) result = api.granularity(&gpu->granule_, &properties, 1);
  gpu->granule_ = std::max(gpu->granule_, kMinPiece);
  if (result != driver::kSuccess) {
    return unsupported("the GPU " + gpu->facts_.name + " cannot be used; " +
                       driver::error_text(api, result));
  }
  CHIMERE_TRY(gpu->stream_, CudaStream::create(api, gpu->context_, gpu->limits_));
  CHIMERE_TRY(gpu->reader_, CudaStream::create(api, gpu->context_, gpu->limits_));
  return std::unique_ptr<Device>(std::move(gpu));
}

Result<int64_t> CudaDevice::free_bytes() {
  driver::use_context(api_, context_);
  size_t free = 0;
  size_t total = 0;
  const int result = api_.memory_info(&free, &total);
  if (result != driver::kSuccess) {
    return io_error("the GPU failed; " + driver::error_text(api_, result));
  }
  return static_cast<int64_t>(free);
}

Result<Stream*> CudaDevice::side_stream() {
  if (side_ == nullptr) {
    CHIMERE_TRY(side_, CudaStream::create(api_, context_, limits_));
  }
  return side_.get();
}

Result<std::unique_ptr<Pinned>> CudaDevice::pinned(size_t bytes) {
  driver::use_context(api_, context_);
  void* data = nullptr;
  const int result = api_.host_allocate(&data, bytes, 0);
  if (result != driver::kSuccess) {
    return out_of_memory("cannot allocate " + std::to_string(bytes) +
                         " bytes of pinned host memory; " + driver::error_text(api_, result));
  }
  return std::unique_ptr<Pinned>(std::make_unique<CudaPinned>(api_, data));
}

Result<std::unique_ptr<MemoryRange>> CudaDevice::reserve(size_t bytes) {
  auto range = std::make_unique<CudaMemoryRange>(api_, context_, device_, granule_, account());
  CHIMERE_CHECK_OK(range->reserve(bytes));
  return std::unique_ptr<MemoryRange>(std::move(range));
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int number, Profile profile) {
  if (embedded_modules().empty()) {
    return unsupported(
        "This program was built without device code for GPUs. Use --backend cpu, or build it with "
        "nvcc 12.8 or later: cmake --preset release -DCHIMERE_CUDA=on, then cmake --build build.");
  }
  CHIMERE_TRY(const Api* api, driver::open());
  return CudaDevice::open(*api, number, profile);
}

}  // namespace chimere::kernels::cuda
