// Survives reads of mapped pages that the file no longer has. Internal to MappedFile.
#ifndef CHIMERE_BASE_FAULT_GUARD_H_
#define CHIMERE_BASE_FAULT_GUARD_H_

#include <cstddef>

namespace chimere {

/// Watches one mapping. When a read of it raises SIGBUS (the file was truncated, or the disk
/// failed), the rest of the mapping from that page on is replaced by zeros, the read continues, and
/// damaged() is true from then on: the caller must discard what it read. The first guard installs
/// the signal handler for the whole process; other faults are passed to the previous handler. Works
/// on any thread.
class FaultGuard {
 public:
  FaultGuard() = default;
  ~FaultGuard() { stop(); }
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;
  FaultGuard(FaultGuard&& other) noexcept;
  FaultGuard& operator=(FaultGuard&& other) noexcept;

  /// `begin` must be page-aligned. False if kMax mappings are already watched.
  bool start(const void* begin, size_t bytes);
  /// Call it before unmapping.
  void stop();
  bool damaged() const;

  static constexpr int kMax = 1024;

 private:
  int slot_ = -1;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_FAULT_GUARD_H_
