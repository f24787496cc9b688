// Finds stop strings in text that arrives in pieces.
#ifndef CHIMERE_ENGINE_STOP_MATCHER_H_
#define CHIMERE_ENGINE_STOP_MATCHER_H_

#include <string>
#include <string_view>
#include <vector>

namespace chimere::engine {

/// Gives text out as soon as it cannot be the beginning of a stop string. Of several stop strings
/// the one that is complete first counts (of those, the one that starts first), so that the result
/// does not depend on the pieces; it and everything after it is dropped. Empty stop strings are
/// ignored.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds text; returns what can be shown. After a match nothing is returned any more.
  std::string push(std::string_view text);
  /// The text has ended: returns what was held back.
  std::string finish();
  bool matched() const { return matched_; }

 private:
  /// Length of the longest end of the held text that begins the stop string without completing it.
  size_t overlap(std::string_view stop) const;

  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_STOP_MATCHER_H_
