#include "text/text_matcher.h"

namespace chimere::text {

TextMatcher::TextMatcher(std::string_view text) {
  bool space = false;
  for (const char c : text) {
    if (is_white_space(c)) {
      space = true;
      continue;
    }
    const bool opens = c == '<' || c == '[' || c == '{';
    const bool closed = !bytes_.empty() && (bytes_.back() == '>' || bytes_.back() == ']');
    space_before_.push_back(!bytes_.empty() && (space || opens || closed));
    bytes_ += c;
    space = false;
  }
}

bool TextMatcher::advance(char c) {
  if (done()) return false;
  if (c == bytes_[at_]) {
    ++at_;
    spaces_ = 0;
    return true;
  }
  return space_before_[at_] && is_white_space(c) && ++spaces_ <= kMostSpace;
}

}  // namespace chimere::text
