#include "base/no_descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace chimere {

NoDescriptors::NoDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit_ = limit.rlim_cur;
  const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (lowest < 0) return;
  close(lowest);
  limit.rlim_cur = static_cast<rlim_t>(lowest);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

NoDescriptors::~NoDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit_;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace chimere
