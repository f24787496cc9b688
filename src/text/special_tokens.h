// Finds the text of control and user-defined tokens.
#ifndef CHIMERE_TEXT_SPECIAL_TOKENS_H_
#define CHIMERE_TEXT_SPECIAL_TOKENS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

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
  /// User-defined tokens of white space alone carry no privilege, so they are
  /// found everywhere.
  void add(std::string_view text, int32_t id, TokenType type);

  /// The first match at or after `from` that lies wholly inside a range of its kind.
  std::optional<Match> search(std::string_view text, size_t from,
                              const AddedTokenRanges& where) const;

 private:
  enum class Kind : uint8_t { kControl, kUserDefined, kWhiteSpace };
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> children;  ///< sorted by byte
    int32_t id = -1;
    Kind kind = Kind::kControl;
  };
  int32_t child(int32_t node, uint8_t byte) const;
  static bool allowed(Kind kind, TextRange match, const AddedTokenRanges& where);

  std::vector<Node> nodes_;
  bool starts_[256] = {};  ///< bytes that begin some token
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_SPECIAL_TOKENS_H_
