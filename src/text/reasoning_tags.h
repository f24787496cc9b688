// The texts around a model's reasoning.
#ifndef CHIMERE_TEXT_REASONING_TAGS_H_
#define CHIMERE_TEXT_REASONING_TAGS_H_

#include <cstdint>
#include <string>

namespace chimere::text {

/// How a model separates its reasoning from its answer. chat_format.h says where they come from.
struct ReasoningTags {
  struct Tag {
    std::string text = {};
    int32_t token = -1;    ///< the token that is the tag; -1: it is text
    bool control = false;  ///< `token` is a control token, whose text generations do not show

    friend bool operator==(const Tag& a, const Tag& b) = default;
  };

  Tag open = {};
  Tag close = {};  ///< an empty text: the model does not reason
  /// Texts around the answer that follows the reasoning; empty: none.
  std::string answer_open = {};
  std::string answer_close = {};

  bool is_token(int32_t token) const {
    return token >= 0 && (token == open.token || token == close.token);
  }
  /// Whether both tags are tokens.
  bool are_tokens() const { return open.token >= 0 && close.token >= 0; }

  friend bool operator==(const ReasoningTags& a, const ReasoningTags& b) = default;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_REASONING_TAGS_H_
