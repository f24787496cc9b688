// Tells a model's reasoning from its answer while they arrive.
#ifndef CHIMERE_PROTOCOL_REASONING_SPLITTER_H_
#define CHIMERE_PROTOCOL_REASONING_SPLITTER_H_

#include <string>
#include <string_view>

namespace chimere::protocol {

/// Reasoning stand between <think> and </think> at the beginning of a response; many templates
/// write the first tag into the prompt. White space around the reasoning, and before the answer
/// that follows them, is dropped. The result does not depend on the pieces.
class ReasoningSplitter {
 public:
  enum class Start {
    kContent,   ///< the model does not think: all is answer, tags too
    kMayThink,  ///< the response may begin with <think>
    kThinking,  ///< the prompt ended behind <think>
  };
  struct Piece {
    std::string reasoning;
    std::string content;
  };

  explicit ReasoningSplitter(Start start);

  /// Adds text; returns what is certain.
  Piece push(std::string_view text);
  /// The text has ended: returns what was held back.
  Piece finish();
  bool thinking() const { return state_ == State::kThinking; }

 private:
  enum class State { kUndecided, kThinking, kBetween, kContent };
  void decide(bool ended);
  void take_reasoning(bool ended, Piece& out);

  State state_;
  bool any_reasoning_ = false;  ///< one was given out: white space before the next is part of them
  std::string held_;
};

/// How the response to a rendered prompt starts, for a template whose source is `source`.
ReasoningSplitter::Start reasoning_start(std::string_view source, std::string_view prompt);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_REASONING_SPLITTER_H_
