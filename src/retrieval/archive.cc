#include "retrieval/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace chimere::retrieval {
namespace {

struct FreeArchive {
  void operator()(archive* reader) const { archive_read_free(reader); }
};
using Reader = std::unique_ptr<archive, FreeArchive>;

constexpr int64_t kRatioFrom = int64_t{4} << 20;

Error damaged(archive* reader) {
  const char* why = archive_error_string(reader);
  return invalid_data(
      "The archive cannot be read: " + std::string(why == nullptr ? "it is damaged" : why) + ".");
}

/// Only filters that libarchive has built in: for others it would start programs.
Reader reader_of(bool raw) {
  Reader reader(archive_read_new());
  if (reader == nullptr) return reader;
  archive* const a = reader.get();
  for (const auto add : {archive_read_support_filter_gzip, archive_read_support_filter_bzip2,
                         archive_read_support_filter_xz, archive_read_support_filter_zstd})
    if (add(a) != ARCHIVE_OK) return nullptr;
  if (raw) {
    if (archive_read_support_format_raw(a) != ARCHIVE_OK) return nullptr;
    return reader;
  }
  for (const auto add : {archive_read_support_format_tar, archive_read_support_format_zip,
                         archive_read_support_format_7zip})
    if (add(a) != ARCHIVE_OK) return nullptr;
  return reader;
}

/// Counts unpacked bytes against the limits.
class Meter {
 public:
  Meter(archive* reader, ArchiveBudget& budget, size_t packed)
      : reader_(reader), budget_(budget), packed_(static_cast<int64_t>(packed)) {}

  Status count(int64_t bytes) {
    unpacked_ += bytes;
    budget_.bytes -= bytes;
    if (budget_.bytes < 0)
      return invalid_data("The archive unpacks to more than the limit of bytes.");
    const int64_t read = std::max<int64_t>(archive_filter_bytes(reader_, -1), 1);
    const double most = budget_.ratio * static_cast<double>(std::min(read, packed_));
    if (unpacked_ > kRatioFrom && static_cast<double>(unpacked_) > most)
      return invalid_data("The archive unpacks to more than " +
                          std::to_string(static_cast<int>(budget_.ratio)) + " times its size.");
    return {};
  }

 private:
  archive* reader_;
  ArchiveBudget& budget_;
  int64_t packed_;
  int64_t unpacked_ = 0;
};

/// The data of the current entry. Errors: kInvalidData (damaged, a limit); kUnsupported (the entry
/// alone is too large).
Result<std::string> data_of(archive* reader, const ArchiveBudget& budget, Meter& meter) {
  std::string data;
  std::array<char, 64 << 10> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): written
  while (true) {
    const la_ssize_t n = archive_read_data(reader, buffer.data(), buffer.size());
    if (n == 0) return data;
    if (n < 0) return damaged(reader);
    CHIMERE_CHECK_OK(meter.count(n));
    if (static_cast<int64_t>(data.size()) + n > budget.entry_bytes)
      return unsupported("has more than " + std::to_string(budget.entry_bytes >> 20) + " MiB");
    data.append(buffer.data(), static_cast<size_t>(n));
  }
}

std::string name_of_entry(archive_entry* entry) {
  const char* name = archive_entry_pathname_utf8(entry);
  if (name == nullptr) name = archive_entry_pathname(entry);
  std::string out = name == nullptr ? "" : name;
  constexpr size_t kMost = 1000;
  if (out.size() > kMost) out.resize(kMost);
  std::erase_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return out;
}

}  // namespace

Status unpack(std::string_view bytes, ArchiveBudget& budget,
              const std::function<Status(const std::string& name, std::string bytes)>& take,
              const std::function<void(std::string)>& skip) {
  const Reader reader = reader_of(false);
  if (reader == nullptr) return out_of_memory("There is not enough memory to read an archive.");
  if (archive_read_open_memory(reader.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return damaged(reader.get());
  Meter meter(reader.get(), budget, bytes.size());
  archive_entry* entry = nullptr;
  int status = ARCHIVE_OK;
  while ((status = archive_read_next_header(reader.get(), &entry)) == ARCHIVE_OK ||
         status == ARCHIVE_WARN) {
    if (--budget.entries < 0) return invalid_data("The archive has more entries than the limit.");
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr)
      continue;
    const std::string name = name_of_entry(entry);
    if (archive_entry_is_encrypted(entry) != 0) {
      skip("'" + name + "' is encrypted.");
      continue;
    }
    Result<std::string> data = data_of(reader.get(), budget, meter);
    if (!data.ok() && data.error().code == Error::Code::kUnsupported) {
      skip("'" + name + "' " + data.error().message + ".");
      continue;
    }
    if (!data.ok()) return data.error();
    CHIMERE_CHECK_OK(take(name, *std::move(data)));
  }
  return status == ARCHIVE_EOF ? Status() : damaged(reader.get());
}

Result<std::string> decompress(std::string_view bytes, ArchiveBudget& budget) {
  const Reader reader = reader_of(true);
  if (reader == nullptr) return out_of_memory("There is not enough memory to read a file.");
  archive_entry* entry = nullptr;
  if (archive_read_open_memory(reader.get(), bytes.data(), bytes.size()) != ARCHIVE_OK ||
      archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK)
    return damaged(reader.get());
  Meter meter(reader.get(), budget, bytes.size());
  Result<std::string> data = data_of(reader.get(), budget, meter);
  if (!data.ok() && data.error().code == Error::Code::kUnsupported)
    return invalid_data("The compressed file " + data.error().message + ".");
  return data;
}

}  // namespace chimere::retrieval
