// Reads texts of a regular language byte by byte: raw UTF-8 or inside a JSON string.
#ifndef CHIMERE_CONSTRAINTS_CHARACTER_AUTOMATON_H_
#define CHIMERE_CONSTRAINTS_CHARACTER_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "constraints/lazy_rows.h"
#include "constraints/length_table.h"
#include "constraints/machine.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// The automaton behind RegexMachine and JsonStringMachine. A state is a node (what the bytes of
/// the current character were so far, and the expression that the rest of the text must match) with
/// the number of characters read where lengths are bounded.
class CharacterAutomaton {
 public:
  enum class Form {
    kRaw,              ///< UTF-8
    kJson,             ///< a JSON string with both quotes
    kJsonAfterOpening  ///< a JSON string without its first quote
  };

  /// Which characters of a JSON string may be written with an escape.
  enum class Escapes : uint8_t {
    kAll,       ///< every character, in each of its forms
    kUnusual,   ///< what is not printable ASCII, and what must be
    kRequired,  ///< what must be, in its shortest form
  };

  /// Lengths in characters; `max` of RegexArena::kUnbounded: none. `escapes` counts for JSON; where
  /// the texts are listed, kAll means kUnusual.
  static Result<CharacterAutomaton> create(RegexArena& arena, Regex language, uint64_t min,
                                           uint64_t max, Form form,
                                           Escapes escapes = Escapes::kAll);

  State start() const { return start_; }
  State next(State state, uint8_t byte);
  bool accepts(State state) const;
  ByteSet first_bytes(State state);
  State mask_class(State state, int32_t longest);
  CharacterClasses stays(State state, int32_t length);
  uint64_t shared_key(State state) const;
  size_t memory() const;

 private:
  using NodeId = uint32_t;
  enum class Kind : uint8_t {
    kNothing,
    kStart,     ///< before the opening quote
    kClosed,    ///< after the closing quote
    kText,      ///< between characters
    kBytes,     ///< inside a UTF-8 character: value of the bits so far, `left` bytes to come
    kTail,      ///< `left` continuation bytes; all lead to the target
    kEscape,    ///< after a backslash
    kHex,       ///< inside \uXXXX: value of the digits so far, `left` digits to come
    kHexTail,   ///< `left` hex digits; all lead to the target
    kHigh,      ///< after a high surrogate: value of its 10 bits; `left`: 6 before \, 5 before u
    kLow,       ///< inside the low surrogate: value: 10 bits << 16 | digits so far
    kHighTail,  ///< `left` - 6 hex digits, then a low surrogate; all lead to the target
  };
  struct Node {
    Kind kind = Kind::kNothing;
    uint8_t left = 0;
    uint32_t value = 0;
    Regex regex = 0;  ///< of the text from this character on; of what follows it if only targets
    bool operator==(const Node&) const = default;
  };
  struct NodeHash {
    size_t operator()(const Node& node) const {
      uint64_t hash = (uint64_t{node.value} << 32 | node.regex) * 0x9E3779B97F4A7C15;
      hash ^= (static_cast<uint64_t>(node.kind) << 8 | node.left) * 0xC2B2AE3D27D4EB4F;
      return hash ^ hash >> 31;
    }
  };
  struct Step {
    NodeId node = 0;
    bool counted = false;  ///< a character is complete
  };

  CharacterAutomaton(RegexArena& arena, LengthTable table, Form form)
      : arena_(&arena), table_(std::move(table)), form_(form) {}

  NodeId intern(const Node& node);
  Step step(NodeId id, uint8_t byte);
  Step compute_step(const Node& node, uint8_t byte);
  Step text(Regex target);
  Step after_character(Regex regex, uint32_t code);
  Step bytes(Regex regex, uint32_t value, int left);
  Step hex(Regex regex, uint32_t value, int left);
  Step low(Regex regex, uint32_t value, int left);
  Regex target(Regex regex, uint32_t code);
  std::optional<Regex> common_target(Regex regex, CodeRange range);
  std::vector<CodeRange> characters(const Node& node) const;
  /// The characters of a range that may be written as \uXXXX, or as \ and a letter.
  std::vector<CodeRange> escaped(CodeRange range) const;
  std::vector<CodeRange> short_escaped(CodeRange range) const;
  bool meets(Regex regex, uint32_t count);
  bool alive(NodeId id, uint32_t count);
  State state_of(NodeId node, uint32_t count);

  /// A count that no bound is compared with.
  static constexpr uint32_t kFree = UINT32_MAX;

  RegexArena* arena_;
  LengthTable table_;
  Form form_;
  Regex language_ = 0;
  uint32_t min_ = 0;
  uint32_t max_ = RegexArena::kUnbounded;
  bool bounded_ = false;
  Escapes escapes_ = Escapes::kAll;
  std::optional<uint64_t> longest_way_;
  State start_ = kDead;

  std::vector<Node> nodes_;
  std::unordered_map<Node, NodeId, NodeHash> node_index_;
  LazyRows steps_;  ///< node and byte to node << 1 | counted

  // Only where lengths are bounded; otherwise states are nodes.
  std::vector<std::pair<NodeId, uint32_t>> states_;
  std::unordered_map<uint64_t, State> state_index_;
  LazyRows rows_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_CHARACTER_AUTOMATON_H_
