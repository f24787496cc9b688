// The queue of work of a device.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_STREAM_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/result.h"
#include "kernels/cuda/device/kernel.h"

namespace chimere::kernels::cuda {

/// A recorded sequence of launches and copies.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// What the host asked for since a stream was made.
struct StreamCounts {
  int64_t launches = 0;          ///< of kernels, one by one; recording launches none
  int64_t graph_launches = 0;    ///< of recorded sequences
  int64_t graph_kernels = 0;     ///< kernels in these, those of other queues among them
  int64_t synchronisations = 0;  ///< waits of the host
};

/// Work is done in the order of the calls, which return before it is done. What goes wrong is kept:
/// after the first failure nothing more is done, and synchronize() says what it was. One thread at
/// a time.
class Stream {
 public:
  virtual ~Stream() = default;

  template <class Args>
  void launch(const Kernel& kernel, const Launch& shape, const Args& args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    launch_bytes(kernel, shape, &args, sizeof args);
  }

  /// Copies between the host and the device, or within it. What lies on the host must be pinned
  /// (Device::pinned) and stay as it is until the work is done.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// Sets bytes to 0.
  virtual void clear(void* to, size_t bytes) = 0;
  /// Work of the host in its turn, by a thread of the queue's own. It may read and write what is
  /// pinned, asks no stream for anything and does not fail; `data` stays until it is done, or as
  /// long as the recording that holds it.
  virtual void call(void (*work)(void* data), void* data) = 0;
  /// What is asked for from here on begins when all that `other` was asked for until now is done.
  /// Between begin_capture() and end_capture() the other stream's work is recorded too, from
  /// its first wait for this one on; this one must wait for its last.
  virtual void wait_for(Stream& other) = 0;

  /// What is asked for from here on is not done but recorded, with the addresses and arguments as
  /// they are now.
  virtual void begin_capture() = 0;
  /// nullptr after a failure.
  virtual std::unique_ptr<Graph> end_capture() = 0;
  virtual void replay(const Graph& graph) = 0;

  /// Waits until all is done. Errors: kIo (the first failure since the stream was made: a launch
  /// that was refused, a lost device); a stream that failed stays so.
  virtual Status synchronize() = 0;

  /// Remembers under this number, below kMarks, what has been asked for until now.
  virtual void mark(int number) = 0;
  /// Waits until that is done. Errors as synchronize().
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
