// Survives reads of mapped pages that the file no longer has. Internal to MappedFile.
#ifndef CHIMERE_BASE_FAULT_GUARD_H_
#define CHIMERE_BASE_FAULT_GUARD_H_

#include <cstddef>

namespace chimere {

/// Watches one mapping. When a read of it raises SIGBUS (the file was cut, or the disk failed), the
/// rest of the mapping from that page on is replaced by zeros, the read continues, and damaged() is
/// true from then on: the reader's results are worthless, but nobody crashes. The handler is
/// installed with the first guard, for the whole process; faults elsewhere go to the handler that
/// was there before. Works on any thread.
class FaultGuard {
 public:
  FaultGuard() = default;
  ~FaultGuard() { stop(); }
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;
  FaultGuard(FaultGuard&& other) noexcept;
  FaultGuard& operator=(FaultGuard&& other) noexcept;

  /// `begin` is a page's start. False if kMax mappings are watched already.
  bool start(const void* begin, size_t bytes);
  /// Before the mapping ends.
  void stop();
  bool damaged() const;

  static constexpr int kMax = 1024;

 private:
  int slot_ = -1;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_FAULT_GUARD_H_
