// What the linear classifier of intents sees of a request: its words, the order of the words that
// the intents list, and its shape.
#ifndef CHIMERE_ORCHESTRATOR_INTENT_FEATURES_H_
#define CHIMERE_ORCHESTRATOR_INTENT_FEATURES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace chimere::orchestrator {

/// Actions, subjects and names: the classes of words of an intent.
inline constexpr uint32_t kKindsOfWords = 3;
size_t intent_of_class(uint32_t of_class);

/// Words and phrases by the class that they belong to, such as "code.subjects".
class IntentLexicon {
 public:
  /// Words of `phrase` follow one another in any case; "s" at the end of a word does not matter.
  void add(std::string_view phrase, uint32_t of_class);

  struct Hit {
    size_t begin = 0;  ///< index of its first word
    size_t words = 0;
    std::vector<uint32_t> classes;
  };
  /// The longest phrases from left to right, without overlap. `words`: from intent_words().
  std::vector<Hit> hits(const std::vector<std::string>& words) const;

 private:
  std::unordered_map<std::string, std::vector<uint32_t>> phrases_;  ///< words joined by a blank
  size_t longest_ = 0;
};

/// The words of a request without "s" at their ends, digits as "0"; those of the beginning and the
/// end of a long one.
std::vector<std::string> intent_words(std::string_view text);

/// A hash of the feature's name, and its value.
using IntentFeature = std::pair<uint64_t, float>;
std::vector<IntentFeature> intent_features(std::string_view text, const IntentLexicon& lexicon);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_INTENT_FEATURES_H_
