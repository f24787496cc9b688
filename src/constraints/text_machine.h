// Any text, with a watch for the texts that end it.
#ifndef CHIMERE_CONSTRAINTS_TEXT_MACHINE_H_
#define CHIMERE_CONSTRAINTS_TEXT_MACHINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "constraints/machine.h"

namespace chimere::constraints {

/// Texts that contain none of some texts, or end with the first occurrence of one (Aho and Corasick
/// 1975). Control tokens may be among the texts, as token_symbol().
class TextMachine final : public Machine {
 public:
  enum class Language {
    kWithout,  ///< no occurrence of an ending
    kUntil,    ///< up to and including the first occurrence of an ending
  };
  enum class Alphabet {
    kText,      ///< valid UTF-8
    kAnyToken,  ///< any bytes and any control tokens
  };

  /// `excluded`: occur nowhere. No text may be empty. With several at one place, the longest
  /// counts. Errors: kUnsupported if they have more than kMaxBytes.
  static Result<std::unique_ptr<TextMachine>> create(std::vector<std::string> endings,
                                                     const std::vector<std::string>& excluded,
                                                     Language language, Alphabet alphabet);
  static constexpr size_t kMaxBytes = 16384;

  State start() override { return state(0, 0); }
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override;
  uint64_t shared_key(State state) override;
  size_t memory() const override { return rows_.size() * sizeof(Row); }

  /// Whether characters and symbols are complete, so that the text may end if nothing else does.
  bool whole(State state) const;
  /// The ending that `state` follows; -1: none.
  int32_t ending(State state) const { return state == kDead ? -1 : ending_[node(state)]; }

 private:
  using Row = std::array<uint32_t, 256>;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kUtf8States = 8;

  TextMachine(Language language, Alphabet alphabet) : language_(language), alphabet_(alphabet) {}
  /// Whether no text continues at this node.
  bool is_dead(uint32_t node) const {
    return ending_[node] >= endings_ || (language_ == Language::kWithout && ending_[node] >= 0);
  }
  uint32_t add_node();
  void add_path(const std::string& text, int32_t ending);
  void add_failures();
  void complete_symbols();

  static State state(uint32_t node, uint32_t utf8) { return 1 + node * kUtf8States + utf8; }
  static uint32_t node(State state) { return (state - 1) / kUtf8States; }

  Language language_;
  Alphabet alphabet_;
  int32_t endings_ = 0;  ///< those above are excluded
  uint64_t key_ = 0;
  std::vector<Row> rows_;        ///< target nodes
  std::vector<int32_t> ending_;  ///< by node
  std::vector<uint8_t> symbol_;  ///< by node: bytes of a token's symbol read so far
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_TEXT_MACHINE_H_
