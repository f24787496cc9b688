// Separates a model's reasoning from its answer in a stream.
#ifndef CHIMERE_TEXT_REASONING_SPLITTER_H_
#define CHIMERE_TEXT_REASONING_SPLITTER_H_

#include <string>
#include <string_view>

#include "text/reasoning_tags.h"

namespace chimere::text {

/// Reasoning is between its tags at the beginning of a generation; many templates write the
/// opening tag into the prompt. White space around the reasoning and before the answer is dropped,
/// and so are the texts around the answer. The result does not depend on how the text is split.
/// Tags that are control tokens must be in the text: see engine::Request::shows().
class ReasoningSplitter {
 public:
  enum class Start {
    kContent,   ///< no reasoning: everything is content, including tags
    kMayThink,  ///< the generation may begin with the opening tag
    kThinking,  ///< the prompt ends after the opening tag
  };
  struct Piece {
    std::string reasoning;
    std::string content;
  };

  ReasoningSplitter(Start start, ReasoningTags tags);

  /// Adds text; returns the parts whose kind is certain.
  Piece push(std::string_view text);
  /// The text of an earlier generation, which this one continues: finish() has released it.
  void skip(std::string_view text);
  /// The text has ended: returns the text that was held back.
  Piece finish();
  bool thinking() const { return state_ == State::kThinking; }

 private:
  enum class State { kUndecided, kThinking, kBetween, kAnswer, kContent };
  Piece advance(bool ended);
  void decide(bool ended);
  void take_reasoning(bool ended, Piece& out);
  void begin_answer(bool ended);
  /// Between the texts around the answer.
  void take_answer(bool ended, Piece& out);

  ReasoningTags tags_;
  State state_;
  bool any_reasoning_ = false;  ///< released some: white space before more belongs to it
  bool any_answer_ = false;     ///< the same
  std::string held_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_REASONING_SPLITTER_H_
