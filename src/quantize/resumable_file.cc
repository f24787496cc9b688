#include "quantize/resumable_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_stream.h"

namespace chimere::quantize {
namespace {

std::string partial_of(const std::string& path) { return path + ".partial"; }
std::string journal_of(const std::string& path) { return path + ".partial.journal"; }

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The size at the journal's last complete checkpoint; 0 if there is none for `identity`.
int64_t journalled_size(const std::string& path, const std::string& identity) {
  constexpr uint64_t kMaxBytes = 16 << 20;
  auto file = InputFile::open(path);
  if (!file.ok() || file->remaining() > kMaxBytes) return 0;
  std::vector<uint8_t> bytes(file->remaining());
  if (!file->read(bytes).ok()) return 0;
  std::string_view text = as_text(bytes);
  if (!text.starts_with(identity + "\n")) return 0;
  text.remove_prefix(identity.size() + 1);
  int64_t size = 0;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    int64_t n = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + end, n);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end) break;
    size = n;
    text.remove_prefix(end + 1);
  }
  return size;
}

bool begins_with(const std::string& path, std::span<const uint8_t> head) {
  auto file = InputFile::open(path);
  if (!file.ok() || file->remaining() < head.size()) return false;
  std::vector<uint8_t> bytes(head.size());
  return file->read(bytes).ok() && std::equal(head.begin(), head.end(), bytes.begin());
}

}  // namespace

ResumableFile::ResumableFile(std::string path, OutputFile data, OutputFile journal)
    : path_(std::move(path)), data_(std::move(data)), journal_(std::move(journal)) {}

Result<ResumableFile> ResumableFile::open(const std::string& path, std::span<const uint8_t> head,
                                          const std::string& identity) {
  CHIMERE_TRY(OutputFile data, OutputFile::append_to(partial_of(path)));
  const int64_t known = journalled_size(journal_of(path), identity);
  CHIMERE_TRY(OutputFile journal, OutputFile::append_to(journal_of(path)));
  const auto head_bytes = static_cast<int64_t>(head.size());
  if (known >= head_bytes && known <= data.size() && begins_with(partial_of(path), head)) {
    CHIMERE_CHECK_OK(data.cut(known));
    return ResumableFile(path, std::move(data), std::move(journal));
  }
  CHIMERE_CHECK_OK(journal.clear());
  CHIMERE_CHECK_OK(data.clear());
  ResumableFile file(path, std::move(data), std::move(journal));
  CHIMERE_CHECK_OK(file.data_.write(as_text(head)));
  CHIMERE_CHECK_OK(file.journal_.write(identity + "\n"));
  return file;
}

Status ResumableFile::write(std::span<const uint8_t> bytes) { return data_.write(as_text(bytes)); }

Status ResumableFile::checkpoint() {
  CHIMERE_CHECK_OK(data_.sync());
  CHIMERE_CHECK_OK(journal_.write(std::to_string(data_.size()) + "\n"));
  return journal_.sync();
}

Status ResumableFile::publish() {
  CHIMERE_CHECK_OK(data_.sync());
  CHIMERE_CHECK_OK(publish_file(partial_of(path_), path_));
  std::error_code ignored;
  std::filesystem::remove(journal_of(path_), ignored);
  return {};
}

void ResumableFile::discard() {
  std::error_code ignored;
  std::filesystem::remove(partial_of(path_), ignored);
  std::filesystem::remove(journal_of(path_), ignored);
}

}  // namespace chimere::quantize
