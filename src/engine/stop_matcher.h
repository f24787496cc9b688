// Finds stop strings in streamed text.
#ifndef CHIMERE_ENGINE_STOP_MATCHER_H_
#define CHIMERE_ENGINE_STOP_MATCHER_H_

#include <string>
#include <string_view>
#include <vector>

#include "text/reasoning_splitter.h"

namespace chimere::engine {

/// Releases text as soon as it cannot be the beginning of a stop string. The stop string that is
/// complete first matches (of several, the one that starts first), so that the result does not
/// depend on how the text is split; the match and everything after it is dropped. Empty stop
/// strings are ignored.
///
/// Stop strings act on the answer alone: text up to what ends the reasoning, the white space after
/// it and the text that opens the answer are released as they are. No match begins there.
class StopMatcher {
 public:
  using Start = text::ReasoningSplitter::Start;

  /// `start` and `tags`: of the text, as for ReasoningSplitter.
  explicit StopMatcher(std::vector<std::string> stops, Start start = Start::kContent,
                       text::ReasoningTags tags = {});

  /// The text that follows is reasoning, up to what ends it. For reasoning that does not begin at
  /// the start of the text.
  void begin_reasoning();
  /// The text so far is reasoning, whatever ends it; appends what is held back of it to `out`.
  void end_reasoning(std::string& out);

  /// The text of an earlier generation, which is continued. Nothing of it is searched or released;
  /// what follows from it is whether the new text begins in the reasoning.
  void skip(std::string_view text);
  /// Adds text; appends the text that is released to `out`: nothing after a match.
  void push(std::string_view text, std::string& out);
  /// The text has ended: returns the text that was held back.
  std::string finish();
  bool matched() const { return matched_; }
  /// The stop string that matched; empty: none did.
  const std::string& match() const { return match_; }

 private:
  enum class State { kUndecided, kReasoning, kBetween, kAnswer };
  /// Releases what comes before the answer. `ended`: no more text follows.
  void pass_reasoning(bool ended, std::string& out);
  void match_answer(std::string& out);
  /// Moves the first `n` bytes of the held text to `out`.
  void release(size_t n, std::string& out);
  /// Length of the longest suffix of the held text that is a proper prefix of `text`.
  size_t overlap(std::string_view text) const;

  std::vector<std::string> stops_;
  text::ReasoningTags tags_;
  State state_;
  std::string held_;
  std::string match_;
  bool matched_ = false;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_STOP_MATCHER_H_
