// Lines of a text with their numbers.
#ifndef CHIMERE_RETRIEVAL_LINE_READER_H_
#define CHIMERE_RETRIEVAL_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace chimere::retrieval {

/// Goes through the lines of a text, which must outlive it. Ends of lines: \n, \r\n.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {}

  /// Advances to the next line; false after the last one.
  bool next() {
    if (at_ >= text_.size()) return false;
    const size_t end = text_.find('\n', at_);
    line_ = text_.substr(at_, end == std::string_view::npos ? end : end - at_);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    at_ = end == std::string_view::npos ? text_.size() : end + 1;
    ++number_;
    return true;
  }
  std::string_view line() const { return line_; }
  int64_t number() const { return number_; }  ///< from 1

  /// The line after this one; empty at the end.
  std::string_view peek() const {
    LineReader ahead = *this;
    return ahead.next() ? ahead.line() : std::string_view();
  }

 private:
  std::string_view text_;
  std::string_view line_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

inline std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r\n\f\v");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r\n\f\v") - from + 1);
}

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_LINE_READER_H_
