#include "base/wake_descriptor.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace chimere {

Result<WakeDescriptor> WakeDescriptor::create() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0)
    return io_error("The process has no file descriptors left; raise the limit (ulimit -n).");
  return WakeDescriptor(fd);
}

WakeDescriptor::~WakeDescriptor() {
  if (fd_ >= 0) close(fd_);
}

WakeDescriptor::WakeDescriptor(WakeDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

void WakeDescriptor::notify() const { (void)eventfd_write(fd_, 1); }

int WakeDescriptor::duplicate() const { return fcntl(fd_, F_DUPFD_CLOEXEC, 0); }

}  // namespace chimere
