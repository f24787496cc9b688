// Where a back end's data lies, for those who allocate and copy without computing: pools of states,
// workspaces, weights.
#ifndef CHIMERE_TENSOR_MEMORY_H_
#define CHIMERE_TENSOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace chimere {

/// A range of addresses that never change, whose first part is backed by memory.
class MemoryRange {
 public:
  virtual ~MemoryRange() = default;
  /// Makes the first `bytes` usable (never fewer than before). Errors: kOutOfMemory (no such memory
  /// is left, or the range is smaller); nothing changes then.
  virtual Status commit(size_t bytes) = 0;
  virtual uint8_t* data() const = 0;
  /// Gives the memory behind these usable bytes back to the system; what they hold is lost, and
  /// they take memory again when they are written. False, and nothing happens, where memory stays
  /// once it is committed.
  virtual bool give_back(size_t /*offset*/, size_t /*bytes*/) { return false; }
};

/// The memory of the host or of a card. Pointers into a GPU's memory must not be read by the host;
/// copies happen in the order of the calls and of the back end's own work, but for read(). One
/// thread at a time, but for read(). Errors: kIo (the device failed).
class Memory {
 public:
  virtual ~Memory() = default;

  /// The host may read and write through its pointers.
  virtual bool on_host() const = 0;
  /// Address space for `bytes`, which may be 0. Errors: kOutOfMemory.
  virtual Result<std::unique_ptr<MemoryRange>> reserve(size_t bytes) = 0;

  virtual Status write(void* to, const void* from_host, size_t bytes) = 0;
  /// Returns when the bytes are there. Any thread may call it, for bytes that no step and no call
  /// that is still in flight writes.
  virtual Status read(void* to_host, const void* from, size_t bytes) = 0;
  /// Ranges that do not overlap.
  virtual Status copy(void* to, const void* from, size_t bytes) = 0;
  virtual Status clear(void* to, size_t bytes) = 0;
};

/// The host's own.
Memory& host_memory();

}  // namespace chimere

#endif  // CHIMERE_TENSOR_MEMORY_H_
