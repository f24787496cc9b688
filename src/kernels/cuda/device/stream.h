// A queue of asynchronous work on a device.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_STREAM_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/result.h"
#include "kernels/cuda/device/kernel.h"

namespace chimere::kernels::cuda {

/// A captured sequence of launches and copies (a CUDA graph).
class Graph {
 public:
  virtual ~Graph() = default;
};

/// What was submitted to a stream since it was created.
struct StreamCounts {
  int64_t launches = 0;          ///< kernels launched outside graphs; capturing launches none
  int64_t graph_launches = 0;    ///< captured graphs replayed
  int64_t graph_kernels = 0;     ///< kernels in these, those of other streams included
  int64_t synchronisations = 0;  ///< times that the host waited
};

/// Calls return immediately; the work runs in the order of the calls. The first failure is kept:
/// later work is skipped, and synchronize() returns that failure. Not thread-safe: one thread at a
/// time.
class Stream {
 public:
  virtual ~Stream() = default;

  template <class Args>
  void launch(const Kernel& kernel, const Launch& shape, const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    launch_bytes(kernel, shape, &args, sizeof args);
  }

  /// Copies between host and device, or within the device. Host memory must be pinned
  /// (Device::pinned) and remain unchanged until the copy is done.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// Sets bytes to 0.
  virtual void clear(void* to, size_t bytes) = 0;
  /// Runs `work` on the host when its turn comes, on a thread of the driver. It may read and write
  /// pinned memory, must not use any stream, and cannot fail. `data` must live until the call is
  /// done, or as long as the graph that captured it.
  virtual void call(void (*work)(void* data), void* data) = 0;
  /// Later work on this stream starts after all work submitted to `other` so far. Between
  /// begin_capture() and end_capture(), `other`'s work is captured too, from its first wait for
  /// this stream on; this stream must wait for `other`'s last captured work.
  virtual void wait_for(Stream& other) = 0;

  /// Later work is captured instead of run, with the current addresses and arguments.
  virtual void begin_capture() = 0;
  /// The captured graph; nullptr after a failure.
  virtual std::unique_ptr<Graph> end_capture() = 0;
  virtual void replay(const Graph& graph) = 0;

  /// Waits until all work is done. Errors: kIo, the first failure since the stream was created (a
  /// refused launch, a lost device); it is permanent.
  virtual Status synchronize() = 0;

  /// Marks this point of the queue as `number`, 0 <= number < kMarks.
  virtual void mark(int number) = 0;
  /// Waits until all work before that mark is done. Errors: as synchronize().
  virtual Status wait_for_mark(int number) = 0;
  static constexpr int kMarks = 2;

  const StreamCounts& counts() const { return counts_; }

 protected:
  virtual void launch_bytes(const Kernel& kernel, const Launch& shape, const void* args,
                            size_t bytes) = 0;
  StreamCounts counts_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_STREAM_H_
