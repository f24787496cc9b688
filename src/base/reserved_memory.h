// Address space reserved at once and committed step by step.
#ifndef CHIMERE_BASE_RESERVED_MEMORY_H_
#define CHIMERE_BASE_RESERVED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace chimere {

/// A range at a fixed address whose first part is usable. Reserving costs no memory, so a pool can
/// reserve its maximum size and pay only for what it uses. Committed memory reads as zeros and is
/// backed by the system on first access. Page-aligned. Not thread-safe.
class ReservedMemory {
 public:
  ReservedMemory() = default;
  ~ReservedMemory();
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&& other) noexcept;

  /// Errors: kOutOfMemory if the address space has no such range.
  static Result<ReservedMemory> reserve(size_t bytes);

  /// Makes the first `bytes` usable; never fewer than before. Errors: kOutOfMemory; nothing changes
  /// then.
  Status commit(size_t bytes);

  /// Returns the memory of the whole system pages within these committed bytes to the system. The
  /// bytes stay usable: they read as zeros and take memory again on the next access.
  void give_back(size_t offset, size_t bytes);

  uint8_t* data() const { return data_; }
  size_t reserved() const { return reserved_; }
  size_t committed() const { return committed_; }

 private:
  uint8_t* data_ = nullptr;
  size_t reserved_ = 0;
  size_t committed_ = 0;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_RESERVED_MEMORY_H_
