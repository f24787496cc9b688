// What a model's chat template and vocabulary say about the parts of its generations.
#ifndef CHIMERE_TEXT_CHAT_FORMAT_H_
#define CHIMERE_TEXT_CHAT_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/reasoning_splitter.h"
#include "text/reasoning_tags.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace chimere::text {

/// Where the reasoning of a generation begins and ends, and how it writes calls.
struct ChatFormat {
  /// The template's; where it knows none, those of the vocabulary.
  ReasoningTags reasoning;
  bool reasons = false;  ///< the template knows the tags: generations may have reasoning
  ToolFormat calls;
  /// The tags between an answer and the next question, as `<|end|>` and `<|user|>`. A text
  /// that has one was written by a model that has lost its way. Sorted.
  std::vector<std::string> turn_tags;

  /// The reasoning tags are the written ones that words of `source` (the template's text) and the
  /// vocabulary point to, or those that a rendering of a message with reasoning shows. Never fails.
  static ChatFormat of(const ChatTemplate& chat_template, std::string_view source,
                       const ChatOptions& options, const Tokenizer& tokenizer);

  /// How a generation after a rendered prompt starts.
  ReasoningSplitter::Start start(std::string_view prompt) const;

  friend bool operator==(const ChatFormat& a, const ChatFormat& b) = default;
};

/// The tags of a vocabulary that has both as tokens, for texts without a template; otherwise none.
ReasoningTags vocabulary_reasoning(const Tokenizer& tokenizer);

/// The end of a prompt that leaves the reasoning empty, in the form of Qwen 3.
std::string empty_reasoning();

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_CHAT_FORMAT_H_
