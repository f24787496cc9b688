#include "base/system.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace chimere {

bool is_terminal(StandardStream stream) { return isatty(static_cast<int>(stream)) == 1; }

std::string program_folder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : path.parent_path().string();
}

std::string home_folder() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : home;
}

std::string data_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  // The specification says that a relative path is to be ignored.
  if (data != nullptr && *data == '/') return data;
  return home_folder().empty() ? "" : home_folder() + "/.local/share";
}

const char* const* environment() { return environ; }

int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  int64_t kilobytes = 0;
  std::string unit;
  while (in >> key >> kilobytes) {
    if (key == "MemAvailable:") return kilobytes * 1024;
    std::getline(in, unit);
  }
  return 0;
}

}  // namespace chimere
