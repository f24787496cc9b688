// Finds stop strings in streamed text.
#ifndef CHIMERE_ENGINE_STOP_MATCHER_H_
#define CHIMERE_ENGINE_STOP_MATCHER_H_

#include <string>
#include <string_view>
#include <vector>

namespace chimere::engine {

/// Releases text as soon as it cannot be the beginning of a stop string. The stop string that is
/// complete first matches (of several, the one that starts first), so that the result does not
/// depend on how the text is split; the match and everything after it is dropped. Empty stop
/// strings are ignored.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds text; appends the text that is released to `out`: nothing after a match.
  void push(std::string_view text, std::string& out);
  /// The text has ended: returns the text that was held back.
  std::string finish();
  bool matched() const { return matched_; }
  /// The stop string that matched; empty: none did.
  const std::string& match() const { return match_; }

 private:
  /// Length of the longest suffix of the held text that is a proper prefix of the stop string.
  size_t overlap(std::string_view stop) const;

  std::vector<std::string> stops_;
  std::string held_;
  std::string match_;
  bool matched_ = false;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_STOP_MATCHER_H_
