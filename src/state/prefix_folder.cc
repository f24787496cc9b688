#include "state/prefix_folder.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/file_stream.h"
#include "state/checksum.h"

namespace chimere::state {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::string_view kSuffix = ".prefix";
constexpr size_t kPartialSuffix = 7;  // AtomicFile appends "." and 6 characters until commit()
constexpr std::string_view kHexDigits = "0123456789abcdef";

/// Whether the name is that of hexadecimal().
bool is_hexadecimal(std::string_view name) {
  return name.size() == 16 && name.find_first_not_of(kHexDigits) == std::string_view::npos;
}

/// Whether the name is that of a complete or partial file of the cache.
bool is_cache_name(std::string_view name) {
  if (!is_hexadecimal(name.substr(0, 16))) return false;
  name.remove_prefix(16);
  if (!name.starts_with(kSuffix)) return false;
  name.remove_prefix(kSuffix.size());
  if (name.empty()) return true;
  return name.size() == kPartialSuffix && name[0] == '.' &&
         std::ranges::all_of(name.substr(1), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

struct File {
  fs::path path;
  int64_t bytes = 0;
  fs::file_time_type used_at;

  bool partial() const { return path.extension() != kSuffix; }
};

int64_t seconds_of(fs::file_time_type time) {
  const auto since = fs::file_time_type::clock::to_sys(time).time_since_epoch();
  return duration_cast<seconds>(since).count();
}

fs::file_time_type file_time(nanoseconds since_1970) {
  using SystemTime = std::chrono::time_point<std::chrono::system_clock, nanoseconds>;
  return std::chrono::time_point_cast<fs::file_time_type::duration>(
      fs::file_time_type::clock::from_sys(SystemTime(since_1970)));
}

bool is_gone(const std::error_code& error) { return error == std::errc::no_such_file_or_directory; }

/// Appends the cache's regular files in the folder of a model. Skips all other files: a wrong
/// --state-folder must not delete unrelated data. Returns the error that made the list incomplete;
/// a missing folder or file is none.
std::error_code add_files(const fs::path& model, std::vector<File>& out) {
  std::error_code error;
  for (fs::directory_iterator file(model, error), end; !error && file != end;
       file.increment(error)) {
    if (!is_cache_name(file->path().filename().string())) continue;
    std::error_code failed;
    const bool regular = file->is_regular_file(failed);
    if (!failed && !regular) continue;
    const uintmax_t size = failed ? 0 : file->file_size(failed);
    const fs::file_time_type time = failed ? fs::file_time_type() : file->last_write_time(failed);
    if (!failed) {
      out.push_back({file->path(), static_cast<int64_t>(size), time});
    } else if (!is_gone(failed)) {
      return failed;
    }
  }
  return is_gone(error) ? std::error_code() : error;
}

void sort_by_use(std::vector<File>& files) {
  std::ranges::sort(files, [](const File& a, const File& b) {
    return std::tie(a.used_at, a.path) < std::tie(b.used_at, b.path);
  });
}

Error not_listed(const fs::path& folder, const std::error_code& error) {
  return io_error("The folder " + folder.string() +
                  " of the prefix cache cannot be listed: " + error.message() + ".");
}

/// The cache's files of all models, least recently used first. Skips folders that this user may not
/// read, except `own`. Errors: kIo (the list would be incomplete).
Result<std::vector<File>> cache_files(const std::string& folder, const fs::path& own) {
  std::vector<File> out;
  std::error_code error;
  for (fs::directory_iterator model(folder, error), end; !error && model != end;
       model.increment(error)) {
    const fs::path& path = model->path();
    if (!is_hexadecimal(path.filename().string())) continue;
    std::error_code failed;
    const bool link = model->is_symlink(failed);
    const bool real = !failed && !link && model->is_directory(failed);
    if (real) failed = add_files(path, out);
    if (!failed || is_gone(failed)) continue;
    if (failed != std::errc::permission_denied || path == own) return not_listed(path, failed);
  }
  if (error && !is_gone(error)) return not_listed(folder, error);
  sort_by_use(out);
  return out;
}

Error unusable(const std::string& folder, const std::string& why) {
  return io_error("The folder " + folder + " of the prefix cache cannot be used: " + why +
                  " Make it writable for this user, name another one (--state-folder), or keep "
                  "nothing on disk (--prefix-disk 0).");
}

Status make_private(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  return error ? Status(unusable(folder, error.message() + ".")) : Status();
}

}  // namespace

int64_t unix_seconds() {
  return duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status make_prefix_folder(const std::string& folder) {
  CHIMERE_CHECK_OK(make_private(folder));
  auto trial = AtomicFile::create(folder + "/trial");  // removed on destruction
  if (!trial.ok()) return unusable(folder, trial.error().message);
  return {};
}

PrefixFolder::PrefixFolder(PrefixFolderOptions options, const ImageLayout& layout)
    : options_(std::move(options)),
      layout_(layout),
      path_(options_.folder + "/" + hexadecimal(layout.fingerprint)) {}

Result<std::unique_ptr<PrefixFolder>> PrefixFolder::open(const PrefixFolderOptions& options,
                                                         const ImageLayout& layout) {
  std::unique_ptr<PrefixFolder> out(new PrefixFolder(options, layout));
  CHIMERE_CHECK_OK(make_private(out->path_));
  return out;
}

PrefixFolder::New PrefixFolder::find_new() {
  New out;
  std::vector<File> files;
  if (const std::error_code error = add_files(path_, files)) {
    out.complete = false;
    out.rejected.push_back(not_listed(path_, error).message);
  }
  sort_by_use(files);
  std::unordered_set<std::string> present;
  for (const File& f : files) {
    if (f.partial()) continue;
    const std::string name = f.path.filename().string();
    if (seen_.contains(name)) {
      present.insert(name);
      continue;
    }
    auto info = read_prefix_info(f.path.string(), layout_);
    if (info.ok() && info->name.file_name() == name) {
      present.insert(name);
      unreadable_.erase(name);
      out.files.push_back({std::move(info).value(), seconds_of(f.used_at)});
      continue;
    }
    if (!info.ok() && !is_unusable(info.error())) {  // the next call tries again
      if (info.error().code == Error::Code::kNotFound) continue;
      out.complete = false;
      if (unreadable_.insert(name).second) out.rejected.push_back(info.error().message);
      continue;
    }
    out.rejected.push_back(
        (info.ok() ? "The file " + f.path.string() + " of the prefix cache has another's name."
                   : info.error().message) +
        " It was removed.");
    std::error_code gone;
    fs::remove(f.path, gone);
  }
  if (!out.complete) present.merge(seen_);  // files that were not listed may still be there
  seen_ = std::move(present);
  return out;
}

Result<PrefixFolder::Content> PrefixFolder::trim() const {
  CHIMERE_TRY(std::vector<File> files, cache_files(options_.folder, path_));
  const int64_t now = unix_seconds();
  Content out;
  std::erase_if(files, [&](const File& f) {
    if (f.partial()) {
      if (!remove_abandoned(f.path.string())) out.bytes += f.bytes;
      return true;
    }
    const bool old =
        options_.seconds_to_live > 0 && now - seconds_of(f.used_at) > options_.seconds_to_live;
    std::error_code gone;
    if (old) fs::remove(f.path, gone);
    return old;
  });
  for (const File& f : files) out.bytes += f.bytes;
  for (const File& f : files) {
    if (out.bytes > options_.max_bytes) {
      std::error_code gone;
      fs::remove(f.path, gone);
      out.bytes -= f.bytes;
    } else if (f.path.parent_path() == fs::path(path_)) {
      out.names.insert(f.path.filename().string());
    }
  }
  return out;
}

void PrefixFolder::note_uses(std::span<const Use> uses) const {
  nanoseconds order{0};
  for (const Use& use : uses) {
    const fs::path file = path_ + "/" + use.name;
    const fs::file_time_type at = file_time(seconds(use.at) + order);
    std::error_code error;
    const fs::file_time_type known = fs::last_write_time(file, error);
    if (!error && known < at) fs::last_write_time(file, at, error);
    ++order;
  }
}

void PrefixFolder::touch(std::span<const std::string> names) const {
  nanoseconds at = std::chrono::system_clock::now().time_since_epoch();
  for (const std::string& name : names) {
    std::error_code error;  // ignored: the file only expires earlier
    fs::last_write_time(path_ + "/" + name, file_time(at), error);
    ++at;
  }
}

Result<Purged> purge_prefix_folder(const std::string& folder, int64_t unused_seconds) {
  Purged out;
  const int64_t now = unix_seconds();
  CHIMERE_TRY(const std::vector<File> files, cache_files(folder, {}));
  for (const File& f : files) {
    if (unused_seconds > 0 && now - seconds_of(f.used_at) <= unused_seconds) continue;
    if (f.partial()) {
      if (!remove_abandoned(f.path.string())) continue;
    } else {
      std::error_code e;
      fs::remove(f.path, e);
      if (e) {
        return io_error("The file " + f.path.string() + " cannot be removed: " + e.message() + ".");
      }
    }
    ++out.files;
    out.bytes += f.bytes;
  }
  return out;
}

}  // namespace chimere::state
