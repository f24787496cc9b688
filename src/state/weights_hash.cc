#include "state/weights_hash.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_stream.h"
#include "base/system.h"

namespace chimere::state {
namespace {

constexpr std::array<uint8_t, 8> kHashMagic = {'C', 'H', 'I', 'M', 'H', 'A', 'S', 'H'};
constexpr uint32_t kHashVersion = 1;
constexpr size_t kPieceBytes = size_t{4} << 20;
// Two writes within one tick of the file system's clock give the same ctime. FAT has the longest
// ticks.
constexpr int64_t kLongestTickNs = 2'000'000'000;

/// Layout of a file in the folder.
struct Entry {
  std::array<uint8_t, 8> magic = kHashMagic;
  uint32_t version = kHashVersion;
  uint32_t zero = 0;
  FileIdentity file;
  Hash128 hash;
  uint64_t sum = 0;  ///< checksum of all fields above
};
static_assert(sizeof(Entry) == 80);

std::span<const uint8_t> bytes_before_sum(const Entry& entry) {
  return {reinterpret_cast<const uint8_t*>(&entry), offsetof(Entry, sum)};
}

template <typename T>
std::span<const uint8_t> object_bytes(const T& v) {
  return {reinterpret_cast<const uint8_t*>(&v), sizeof v};
}

}  // namespace

WeightsHash::WeightsHash(WeightsHashOptions options) : options_(std::move(options)) {}

std::shared_ptr<WeightsHash> WeightsHash::known(const Hash128& hash) {
  std::shared_ptr<WeightsHash> out(new WeightsHash({}));
  out->result_ = hash;
  return out;
}

std::shared_ptr<WeightsHash> WeightsHash::start(std::span<const MappedFile> files,
                                                WeightsHashOptions options) {
  std::shared_ptr<WeightsHash> out(new WeightsHash(std::move(options)));
  const bool all_kept = std::ranges::all_of(files, [&](const MappedFile& file) {
    const auto identity = file.identity();
    return identity.ok() && out->find(*identity).has_value();
  });
  if (all_kept) {
    out->finish(out->read_all(files));
    return out;
  }
  out->thread_ = std::thread([hash = out.get(), files] {
    lower_thread_priority();
    hash->finish(hash->read_all(files));
  });
  return out;
}

WeightsHash::~WeightsHash() {
  abandon();
  if (thread_.joinable()) thread_.join();
}

bool WeightsHash::ready() const {
  const std::scoped_lock lock(mutex_);
  return result_.has_value();
}

Result<Hash128> WeightsHash::get() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return result_.has_value(); });
  return *result_;
}

void WeightsHash::abandon() { abandoned_ = true; }

void WeightsHash::finish(Result<Hash128> result) {
  const std::scoped_lock lock(mutex_);
  result_ = std::move(result);
  changed_.notify_all();
}

int64_t WeightsHash::now() const {
  if (options_.now_ns) return options_.now_ns();
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

/// The path depends on device and inode only: the entry of a changed file replaces its old one.
std::string WeightsHash::entry_path(const FileIdentity& file) const {
  const std::array<uint64_t, 2> name = {file.device, file.inode};
  return options_.folder + "/" + hexadecimal(checksum(object_bytes(name))) + ".hash";
}

std::optional<Hash128> WeightsHash::find(const FileIdentity& file) const {
  if (options_.folder.empty()) return std::nullopt;
  auto in = InputFile::open(entry_path(file));
  Entry entry;
  if (!in.ok() || in->remaining() != sizeof entry ||
      !in->read({reinterpret_cast<uint8_t*>(&entry), sizeof entry}).ok()) {
    return std::nullopt;
  }
  const bool sound = entry.magic == kHashMagic && entry.version == kHashVersion &&
                     entry.sum == checksum(bytes_before_sum(entry));
  if (!sound || entry.file != file) return std::nullopt;
  return entry.hash;
}

/// Ignores errors: without an entry, a later run reads the file again.
void WeightsHash::keep(const FileIdentity& file, const Hash128& hash) const {
  if (options_.folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  auto out = AtomicFile::create(entry_path(file));
  Entry entry;
  entry.file = file;
  entry.hash = hash;
  entry.sum = checksum(bytes_before_sum(entry));
  if (out.ok() && out->write(object_bytes(entry)).ok()) (void)out->commit();
}

Result<Hash128> WeightsHash::read(const MappedFile& file) {
  const int64_t began = now();
  CHIMERE_TRY(const FileIdentity before, file.identity());
  if (const auto kept = find(before)) return *kept;
  ++files_read_;
  Hasher128 hasher;
  std::vector<uint8_t> piece(std::min(kPieceBytes, file.size()));
  for (size_t at = 0; at < file.size(); at += piece.size()) {
    if (abandoned_) return Error{Error::Code::kCancelled, "the program ends"};
    piece.resize(std::min(piece.size(), file.size() - at));
    CHIMERE_CHECK_OK(file.read(at, piece));
    hasher.update(piece);
  }
  // The mapped weights must be the bytes that were hashed.
  CHIMERE_CHECK_OK(file.check_unchanged());
  CHIMERE_TRY(const FileIdentity after, file.identity());
  if (before == after && began - before.changed_ns > kLongestTickNs) keep(before, hasher.value());
  return hasher.value();
}

Result<Hash128> WeightsHash::read_all(std::span<const MappedFile> files) {
  Hasher128 all;
  for (const MappedFile& file : files) {
    auto hash = read(file);
    if (!hash.ok()) {
      Error error = std::move(hash).error();
      error.message = "The model's weights cannot be hashed: " + error.message + ".";
      return error;
    }
    all.update(object_bytes(*hash));
  }
  return all.value();
}

}  // namespace chimere::state
