#include "retrieval/sources.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace chimere::retrieval {
namespace {

namespace fs = std::filesystem;

Error cancelled() { return {Error::Code::kCancelled, "The update was stopped."}; }

bool skipped_name(std::string_view name) {
  return name.starts_with('.') || name == "node_modules" || name == "__pycache__";
}

int64_t nanoseconds(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system.time_since_epoch()).count();
}

/// Adds the file unless it cannot be examined.
void add_file(const fs::directory_entry& entry, std::vector<SourceFile>& files) {
  std::error_code error;
  const auto size = entry.file_size(error);
  if (error) return;
  const auto time = entry.last_write_time(error);
  if (error) return;
  files.push_back({entry.path().string(), static_cast<int64_t>(size), nanoseconds(time)});
}

}  // namespace

Result<std::vector<SourceFile>> files_below(const std::string& path,
                                            const std::function<bool()>& interrupted) {
  std::error_code error;
  const fs::directory_entry root{fs::path(path), error};
  if (error || !root.exists(error)) return not_found("There is no file or folder '" + path + "'.");
  std::vector<SourceFile> files;
  if (!root.is_directory(error)) {
    if (!root.is_regular_file(error))
      return invalid_argument("'" + path + "' is neither a file nor a folder.");
    add_file(root, files);
    return files;
  }
  fs::recursive_directory_iterator at(root.path(), fs::directory_options::skip_permission_denied,
                                      error);
  if (error) return io_error("The folder '" + path + "' cannot be read: " + error.message() + ".");
  for (; at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (error)
      return io_error("The folder '" + path + "' cannot be read: " + error.message() + ".");
    if (interrupted && interrupted()) return cancelled();
    std::error_code ignored;
    if (skipped_name(at->path().filename().string())) {
      if (at->is_directory(ignored)) at.disable_recursion_pending();
      continue;
    }
    if (at->is_regular_file(ignored)) add_file(*at, files);
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

Result<std::vector<SourceFile>> manual_pages(const std::string& folder,
                                             const std::function<bool()>& interrupted) {
  std::vector<std::string> folders = {folder};
  if (folder.empty()) folders = {"/usr/local/share/man", "/usr/share/man"};
  std::vector<SourceFile> files;
  std::set<std::string> seen;
  std::error_code error;
  for (const std::string& root : folders) {
    for (const char section : std::string_view("123456789ln")) {
      const std::string below = root + "/man" + section;
      if (!fs::is_directory(below, error)) continue;
      CHIMERE_TRY(const auto found, files_below(below, interrupted));
      for (const SourceFile& file : found) {
        // Links to the same page: its own name is the one that is no link.
        std::string real = file.path;
        if (fs::is_symlink(file.path, error)) real = fs::canonical(file.path, error).string();
        if (real.empty() || !seen.insert(real).second) continue;
        files.push_back({real, file.size, file.modified_ns});
      }
    }
  }
  if (files.empty())
    return not_found("There are no manual pages (man1, man2, ...) below " + folders.back() + ".");
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

}  // namespace chimere::retrieval
