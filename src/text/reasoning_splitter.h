// Separates a model's reasoning from its answer in a stream.
#ifndef CHIMERE_TEXT_REASONING_SPLITTER_H_
#define CHIMERE_TEXT_REASONING_SPLITTER_H_

#include <string>
#include <string_view>

namespace chimere::text {

/// The tags around reasoning.
inline constexpr std::string_view kReasoningOpen = "<think>";
inline constexpr std::string_view kReasoningClose = "</think>";

/// Reasoning stands between <think> and </think> at the beginning of a generation; many templates
/// write the opening tag into the prompt. White space around the reasoning and before the answer is
/// dropped. The result does not depend on how the text is split.
class ReasoningSplitter {
 public:
  enum class Start {
    kContent,   ///< no reasoning: everything is content, including tags
    kMayThink,  ///< the generation may begin with <think>
    kThinking,  ///< the prompt ends after <think>
  };
  struct Piece {
    std::string reasoning;
    std::string content;
  };

  explicit ReasoningSplitter(Start start);

  /// Adds text; returns the parts whose kind is certain.
  Piece push(std::string_view text);
  /// The text has ended: returns the text that was held back.
  Piece finish();
  bool thinking() const { return state_ == State::kThinking; }

 private:
  enum class State { kUndecided, kThinking, kBetween, kContent };
  void decide(bool ended);
  void take_reasoning(bool ended, Piece& out);

  State state_;
  bool any_reasoning_ = false;  ///< released some: white space before more belongs to it
  std::string held_;
};

/// The initial state for a rendered prompt; `source`: the source of the chat template.
ReasoningSplitter::Start reasoning_start(std::string_view source, std::string_view prompt);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_REASONING_SPLITTER_H_
