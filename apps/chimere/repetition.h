// Finds that a generation repeats itself without end.
#ifndef CHIMERE_APPS_CHIMERE_REPETITION_H_
#define CHIMERE_APPS_CHIMERE_REPETITION_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace chimere::app {

/// Counts, for each period of up to kPeriods tokens, how many tokens in a row are the same as those
/// one period before.
class Repetition {
 public:
  void add(int32_t token);
  /// The last tokens are a text of at most kPeriods tokens that came at least kRounds more times,
  /// in at least kLeast tokens: longer than a table or a refrain repeats itself.
  bool endless() const;

  static constexpr size_t kPeriods = 128;
  static constexpr int64_t kRounds = 8;
  static constexpr int64_t kLeast = 200;

 private:
  std::array<int32_t, kPeriods> last_{};  ///< a ring of tokens
  size_t seen_ = 0;
  std::array<int64_t, kPeriods> repeated_{};  ///< by period - 1
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_REPETITION_H_
