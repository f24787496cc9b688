// Finds the text of control and user-defined tokens.
#ifndef CHIMERE_TEXT_SPECIAL_TOKENS_H_
#define CHIMERE_TEXT_SPECIAL_TOKENS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace chimere::text {

/// A set of strings with a search for the leftmost, among those the longest.
class SpecialTokens {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t id = -1;
  };

  SpecialTokens();
  /// `control`: found only where search() is told that control tokens count.
  void add(std::string_view text, int32_t id, bool control);

  /// The first match at or after `from`. A control token counts only where
  /// control_allowed(begin, end) says so.
  std::optional<Match> search(
      std::string_view text, size_t from,
      const std::function<bool(size_t begin, size_t end)>& control_allowed) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> children;  ///< sorted by byte
    int32_t id = -1;
    bool control = false;
  };
  int32_t child(int32_t node, uint8_t byte) const;
  std::vector<Node> nodes_;
  bool starts_[256] = {};  ///< bytes that begin some token
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_SPECIAL_TOKENS_H_
