// How threads wake one that sleeps on descriptors.
#ifndef CHIMERE_BASE_WAKE_DESCRIPTOR_H_
#define CHIMERE_BASE_WAKE_DESCRIPTOR_H_

#include "base/result.h"

namespace chimere {

/// A descriptor that becomes readable (8 bytes, all at once) when notify() was called since it was
/// last read.
class WakeDescriptor {
 public:
  /// Errors: kIo (out of descriptors).
  static Result<WakeDescriptor> create();
  ~WakeDescriptor();
  WakeDescriptor(WakeDescriptor&& other) noexcept;
  WakeDescriptor& operator=(WakeDescriptor&&) = delete;
  WakeDescriptor(const WakeDescriptor&) = delete;
  WakeDescriptor& operator=(const WakeDescriptor&) = delete;

  /// Any thread.
  void notify() const;
  /// A copy, which belongs to the caller, does not block and is closed by him. -1: out of
  /// descriptors.
  int duplicate() const;

 private:
  explicit WakeDescriptor(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_WAKE_DESCRIPTOR_H_
