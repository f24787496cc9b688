// The memory of a back end, for code that allocates and copies without computing: state pools,
// workspaces, weights.
#ifndef CHIMERE_TENSOR_MEMORY_H_
#define CHIMERE_TENSOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace chimere {

/// A range at a fixed address whose first part is backed by memory.
class MemoryRange {
 public:
  virtual ~MemoryRange() = default;
  /// Makes the first `bytes` usable; never fewer than before. Errors: kOutOfMemory (no such memory
  /// is left, or the range is smaller); nothing changes then.
  virtual Status commit(size_t bytes) = 0;
  virtual uint8_t* data() const = 0;
  /// Gives the memory behind these usable bytes back to the system; what they hold is lost, and
  /// they take memory again when they are written. False, and nothing happens, where memory stays
  /// once it is committed.
  virtual bool give_back(size_t /*offset*/, size_t /*bytes*/) { return false; }
};

/// The memory of the host or of a GPU. The host must not dereference pointers to GPU memory. Copies
/// run in the order of the calls and of the back end's own work, except read(). Only one thread at
/// a time may call it, except read(). Errors: kIo (the device failed).
class Memory {
 public:
  virtual ~Memory() = default;

  /// Whether the host may read and write through the pointers.
  virtual bool on_host() const = 0;
  /// Reserves address space for `bytes`, which may be 0. Errors: kOutOfMemory.
  virtual Result<std::unique_ptr<MemoryRange>> reserve(size_t bytes) = 0;

  virtual Status write(void* to, const void* from_host, size_t bytes) = 0;
  /// Returns when the bytes have arrived. Any thread may call it, for bytes that no step or call in
  /// flight writes.
  virtual Status read(void* to_host, const void* from, size_t bytes) = 0;
  /// The ranges must not overlap.
  virtual Status copy(void* to, const void* from, size_t bytes) = 0;
  virtual Status clear(void* to, size_t bytes) = 0;
};

/// The host's memory.
Memory& host_memory();

}  // namespace chimere

#endif  // CHIMERE_TENSOR_MEMORY_H_
