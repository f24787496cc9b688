#include "terminal/history.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include "base/file_stream.h"
#include "terminal/cells.h"

namespace chimere::terminal {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> read_entries(const std::string& path) {
  std::vector<std::string> entries;
  std::error_code error;
  if (path.empty() || !fs::is_regular_file(path, error)) return entries;
  std::ifstream in(path, std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    // Another program may have written anything into the file.
    std::string text = clean_text(unescape_entry(line));
    if (!text.empty() && line.size() <= 2 * History::kLongestKept) {
      entries.push_back(std::move(text));
    }
  }
  return entries;
}

void add_entry(std::vector<std::string>& entries, std::string_view text) {
  if (!entries.empty() && entries.back() == text) return;
  entries.emplace_back(text);
  if (entries.size() > History::kMostEntries) {
    entries.erase(entries.begin(),
                  entries.end() - static_cast<std::ptrdiff_t>(History::kMostEntries));
  }
}

}  // namespace

std::string escape_entry(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescape_entry(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\\' && at + 1 < line.size()) {
      ++at;
      out += line[at] == 'n' ? '\n' : line[at];
    } else {
      out += line[at];
    }
  }
  return out;
}

History::History(std::string path) : path_(std::move(path)), entries_(read_entries(path_)) {}

Status History::add(std::string_view text) {
  if (text.find_first_not_of(" \t\n") == std::string_view::npos) return {};
  add_entry(entries_, text);
  if (path_.empty() || text.size() > kLongestKept) return {};
  std::vector<std::string> kept = read_entries(path_);
  add_entry(kept, text);
  std::string bytes;
  for (const std::string& entry : kept) bytes += escape_entry(entry) + "\n";
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path_));
  CHIMERE_CHECK_OK(
      file.write(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size())));
  return file.commit();
}

}  // namespace chimere::terminal
