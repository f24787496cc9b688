// What was entered before, kept in a file.
#ifndef CHIMERE_TERMINAL_HISTORY_H_
#define CHIMERE_TERMINAL_HISTORY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::terminal {

/// Entries of one or more lines, the newest last. The file has one entry per line, in which "\n"
/// stands for a line feed and "\\" for a backslash; only its owner may read it.
class History {
 public:
  /// Entries that are kept.
  static constexpr size_t kMostEntries = 2000;
  /// Bytes of the longest entry that the file keeps.
  static constexpr size_t kLongestKept = 64 << 10;

  /// `path`: empty keeps the history in memory only. Reads the file if it exists.
  explicit History(std::string path = "");

  const std::vector<std::string>& entries() const { return entries_; }

  /// Adds an entry unless it is blank or equals the newest one, and rewrites the file with what
  /// other programs have added since. Makes the file's folder. Errors: kIo, kOutOfSpace; the entry
  /// is in memory then.
  Status add(std::string_view text);

 private:
  std::string path_;
  std::vector<std::string> entries_;
};

/// An entry as a line of the file, without the line feed; and back.
std::string escape_entry(std::string_view text);
std::string unescape_entry(std::string_view line);

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_HISTORY_H_
