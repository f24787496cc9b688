// A string that records which of its bytes the template's author wrote.
#ifndef CHIMERE_TEXT_JINJA_MARKED_TEXT_H_
#define CHIMERE_TEXT_JINJA_MARKED_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace chimere::text::jinja {

/// Bytes come from the template (trusted) or from its input: messages, tools, documents.
/// The mark follows every operation on strings, so that the text of a special token inside a
/// message never becomes that token.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string_view bytes, bool trusted) { append(bytes, trusted); }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void append(std::string_view bytes, bool trusted);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  void append(const MarkedText& other, size_t begin, size_t end);

  MarkedText substr(size_t begin, size_t end) const;
  bool trusted_at(size_t at) const;

  /// Sorted and disjoint; neighbours do not touch.
  std::vector<TextRange> trusted_ranges() const;

 private:
  struct Run {
    size_t end;
    bool trusted;
  };
  size_t run_of(size_t at) const;
  std::string bytes_;
  std::vector<Run> runs_;  ///< neighbours differ
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_MARKED_TEXT_H_
