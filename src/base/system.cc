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

namespace {

/// A folder of the XDG base directory specification, which says that a relative path is to be
/// ignored.
std::string xdg_folder(const char* variable, const char* below_home) {
  const char* folder = std::getenv(variable);
  if (folder != nullptr && *folder == '/') return folder;
  return home_folder().empty() ? "" : home_folder() + below_home;
}

}  // namespace

std::string data_folder() { return xdg_folder("XDG_DATA_HOME", "/.local/share"); }

std::string state_folder() { return xdg_folder("XDG_STATE_HOME", "/.local/state"); }

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
