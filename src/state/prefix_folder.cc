#include "state/prefix_folder.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace chimere::state {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr std::string_view kSuffix = ".prefix";

struct File {
  fs::path path;
  int64_t bytes = 0;
  int64_t used_at = 0;
};

int64_t seconds_of(fs::file_time_type time) {
  const auto since = fs::file_time_type::clock::to_sys(time).time_since_epoch();
  return duration_cast<seconds>(since).count();
}

/// Regular files in the folders of all models, oldest first. Others than the cache's are left out:
/// a mistaken setting must not empty somebody's folder.
std::vector<File> cache_files(const std::string& folder) {
  std::vector<File> out;
  std::error_code e;
  for (fs::directory_iterator model(folder, e), end; !e && model != end; model.increment(e)) {
    std::error_code inner;
    if (model->is_symlink(inner) || !model->is_directory(inner)) continue;
    for (fs::directory_iterator file(model->path(), inner); !inner && file != end;
         file.increment(inner)) {
      std::error_code gone;
      if (!file->is_regular_file(gone) ||
          file->path().filename().string().find(kSuffix) == std::string::npos) {
        continue;
      }
      const auto size = file->file_size(gone);
      const auto time = file->last_write_time(gone);
      if (!gone) out.push_back({file->path(), static_cast<int64_t>(size), seconds_of(time)});
    }
  }
  std::ranges::stable_sort(out, {}, &File::used_at);
  return out;
}

std::string hexadecimal(uint64_t v) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(v >> shift) & 15];
  return out;
}

}  // namespace

int64_t unix_seconds() {
  return duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<std::vector<FoundPrefix>> open_prefix_folder(
    const PrefixFolderOptions& options, const ImageLayout& layout,
    const std::function<void(const std::string&)>& log, std::string& path) {
  path = options.folder + "/" + hexadecimal(layout.fingerprint);
  std::error_code e;
  fs::create_directories(path, e);
  for (const std::string& private_one : {options.folder, path}) {
    if (!e) fs::permissions(private_one, fs::perms::owner_all, e);
  }
  if (e) {
    return io_error("The folder " + path + " of the prefix cache cannot be made: " + e.message() +
                    "; name another one (--state-folder).");
  }
  std::vector<File> files = cache_files(options.folder);
  int64_t total = 0;
  for (const File& f : files) total += f.bytes;
  const int64_t now = unix_seconds();
  std::vector<FoundPrefix> found;
  for (const File& f : files) {
    const bool old = options.seconds_to_live > 0 && now - f.used_at > options.seconds_to_live;
    const bool ours = f.path.parent_path() == fs::path(path);
    // What a killed program was writing has more behind the suffix.
    const bool partial = ours && f.path.extension() != kSuffix;
    if (old || total > options.max_bytes || partial) {
      total -= f.bytes;
      fs::remove(f.path, e);
      continue;
    }
    if (!ours) continue;
    auto info = read_prefix_info(f.path.string(), layout);
    if (info.ok() && info->name.file_name() == f.path.filename().string()) {
      found.push_back({std::move(info).value(), f.used_at});
      continue;
    }
    log((info.ok() ? "The file " + f.path.string() + " of the prefix cache has another's name."
                   : info.error().message) +
        " It was removed.");
    total -= f.bytes;
    fs::remove(f.path, e);
  }
  return found;
}

void touch_prefix_file(const std::string& path) {
  std::error_code e;
  fs::last_write_time(path, fs::file_time_type::clock::now(), e);
}

Result<Purged> purge_prefix_folder(const std::string& folder, int64_t unused_seconds) {
  Purged out;
  const int64_t now = unix_seconds();
  for (const File& f : cache_files(folder)) {
    if (unused_seconds > 0 && now - f.used_at <= unused_seconds) continue;
    std::error_code e;
    fs::remove(f.path, e);
    if (e)
      return io_error("The file " + f.path.string() + " cannot be removed: " + e.message() + ".");
    ++out.files;
    out.bytes += f.bytes;
  }
  return out;
}

}  // namespace chimere::state
