// Wakes a thread that sleeps on file descriptors.
#ifndef CHIMERE_BASE_WAKE_DESCRIPTOR_H_
#define CHIMERE_BASE_WAKE_DESCRIPTOR_H_

#include "base/result.h"

namespace chimere {

/// A file descriptor that becomes readable (8 bytes, in one read) when notify() has been called
/// since the last read.
class WakeDescriptor {
 public:
  /// Errors: kIo (out of descriptors).
  static Result<WakeDescriptor> create();
  ~WakeDescriptor();
  WakeDescriptor(WakeDescriptor&& other) noexcept;
  WakeDescriptor& operator=(WakeDescriptor&&) = delete;
  WakeDescriptor(const WakeDescriptor&) = delete;
  WakeDescriptor& operator=(const WakeDescriptor&) = delete;

  /// Any thread may call it.
  void notify() const;
  /// A duplicate that does not block; the caller must close it. -1: out of descriptors.
  int duplicate() const;

 private:
  explicit WakeDescriptor(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_WAKE_DESCRIPTOR_H_
