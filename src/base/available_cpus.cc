#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "base/thread_pool.h"

namespace chimere {
namespace {

int affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

/// The number of CPUs for `quota` microseconds per `period` microseconds, rounded up: with 1.5 CPUs
/// two threads are faster than one.
int quota_cpus(double quota, double period) {
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

/// cgroup v2: "max 100000" or "150000 100000".
std::optional<int> quota_v2(const std::string& dir) {
  const auto line = read_line(dir + "/cpu.max");
  if (!line) return std::nullopt;
  std::istringstream in(*line);
  double quota = 0;
  double period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota_cpus(quota, period);
}

/// cgroup v1: a quota of -1 means none.
std::optional<int> quota_v1(const std::string& dir) {
  const auto quota = read_line(dir + "/cpu.cfs_quota_us");
  const auto period = read_line(dir + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  const double q = std::strtod(quota->c_str(), nullptr);
  const double p = std::strtod(period->c_str(), nullptr);
  if (q <= 0 || p <= 0) return std::nullopt;
  return quota_cpus(q, p);
}

/// The smallest quota of the process's cgroup and its visible ancestors.
std::optional<int> cgroup_cpus() {
  std::optional<int> least;
  auto take = [&](std::optional<int> n) {
    if (n && (!least || *n < *least)) least = n;
  };
  // Lines of /proc/self/cgroup: "0::/a/b" (v2) or "4:cpu,cpuacct:/a/b" (v1).
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    while (true) {
      if (path == "/") path.clear();
      if (v2) {
        take(quota_v2("/sys/fs/cgroup" + path));
      } else {
        take(quota_v1("/sys/fs/cgroup/cpu" + path));
      }
      if (path.empty()) break;
      const size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
  }
  return least;
}

}  // namespace

int available_cpus() {
  const int cpus = affinity_cpus();
  return std::max(1, std::min(cpus, cgroup_cpus().value_or(cpus)));
}

}  // namespace chimere
