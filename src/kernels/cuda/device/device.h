// A GPU, or the emulator of one.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernels/cuda/device/device_facts.h"
#include "kernels/cuda/device/memory_account.h"
#include "kernels/cuda/device/stream.h"
#include "tensor/memory.h"

namespace chimere::kernels::cuda {

/// Page-locked host memory, which asynchronous copies and kernels access by its address. data() is
/// not null when bytes > 0.
class Pinned {
 public:
  virtual ~Pinned() = default;
  virtual uint8_t* data() const = 0;
};

/// Must outlive all memory and streams that it returns. Not thread-safe: one thread at a time.
class Device : public Memory {
 public:
  virtual const DeviceFacts& facts() const = 0;
  /// The main stream, which Memory's copies use too.
  virtual Stream& stream() = 0;
  /// A second stream, whose work may run concurrently with the first one's. Errors: kIo.
  virtual Result<Stream*> side_stream() = 0;
  /// Bytes of device memory that are free at this moment, counting all processes.
  virtual Result<int64_t> free_bytes() = 0;
  /// Limit and current use of the device's memory; MemoryRange::commit() charges it.
  MemoryAccount& account() { return account_; }
  /// Errors: kOutOfMemory.
  virtual Result<std::unique_ptr<Pinned>> pinned(size_t bytes) = 0;

  bool on_host() const override { return false; }

 private:
  MemoryAccount account_;
};

/// Opens GPU `number` through the driver. Under a profile other than kNative the device keeps to
/// that profile's limits, and launches beyond them fail. Errors: kUnsupported (built without device
/// code, no driver, no such GPU, compute capability too low); the message names what is missing.
Result<std::unique_ptr<Device>> open_cuda_device(int number, Profile profile = Profile::kNative);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_H_
