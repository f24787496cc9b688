// Matches a text byte by byte, with any amount of white space where the text may have some.
#ifndef CHIMERE_TEXT_TEXT_MATCHER_H_
#define CHIMERE_TEXT_TEXT_MATCHER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::text {

/// White space may stand, or be missing, where the text has white space, before and behind tags and
/// before a bracket. White space before the first and behind the last byte is not part of the
/// match.
class TextMatcher {
 public:
  TextMatcher() = default;
  explicit TextMatcher(std::string_view text);

  /// Whether the text continues with `c`; false if done(). Not to be called after false.
  bool advance(char c);
  bool done() const { return at_ == bytes_.size(); }
  bool started() const { return at_ > 0; }
  bool empty() const { return bytes_.empty(); }
  void restart() {
    at_ = 0;
    spaces_ = 0;
  }
  char first() const { return bytes_.empty() ? '\0' : bytes_.front(); }

 private:
  static constexpr size_t kMostSpace = 256;  ///< between two parts
  std::string bytes_;
  std::vector<bool> space_before_;
  size_t at_ = 0;
  size_t spaces_ = 0;
};

inline bool is_white_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TEXT_MATCHER_H_
