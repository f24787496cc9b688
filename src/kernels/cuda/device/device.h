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

/// Memory of the host that copies need not wait for and that kernels reach by its address; never
/// null when bytes > 0.
class Pinned {
 public:
  virtual ~Pinned() = default;
  virtual uint8_t* data() const = 0;
};

/// Must outlive everything that came from it. One thread at a time.
class Device : public Memory {
 public:
  virtual const DeviceFacts& facts() const = 0;
  /// The queue that Memory's copies go through too.
  virtual Stream& stream() = 0;
  /// A second queue, whose work may continue beside the first one's. Errors: kIo.
  virtual Result<Stream*> side_stream() = 0;
  /// Bytes that nobody uses at this moment.
  virtual Result<int64_t> free_bytes() = 0;
  /// What may be used (MemoryRange::commit) and is used of the device's memory.
  MemoryAccount& account() { return account_; }
  /// Errors: kOutOfMemory.
  virtual Result<std::unique_ptr<Pinned>> pinned(size_t bytes) = 0;

  bool on_host() const override { return false; }

 private:
  MemoryAccount account_;
};

/// The GPU of this number, opened through the driver. Under another profile than kNative it works
/// within that one's limits, and launches beyond them fail. Errors: kUnsupported (built without
/// device code, no driver, no such GPU, a GPU that is too old), with what is missing.
Result<std::unique_ptr<Device>> open_cuda_device(int number, Profile profile = Profile::kNative);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_H_
