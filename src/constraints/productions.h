// A grammar in the form that the Earley machine reads: rules of productions of positions.
#ifndef CHIMERE_CONSTRAINTS_PRODUCTIONS_H_
#define CHIMERE_CONSTRAINTS_PRODUCTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "constraints/grammar.h"
#include "constraints/machine.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// Something that reads bytes itself.
struct Terminal {
  enum class Kind : uint8_t { kLiteral, kBytes, kCharacters, kMachine };
  Kind kind = Kind::kLiteral;
  std::string text;
  ByteSet bytes;  ///< kBytes: the set; otherwise a superset of the first bytes
  std::vector<Grammar::Range> ranges;
  std::unique_ptr<Machine> machine;
  State start = kDead;    ///< of `machine`
  bool nullable = false;  ///< the empty text belongs to it
  /// Behind a text of the terminal, bytes that would continue it are not read by anything else.
  bool delimited = false;
};

/// Rules whose productions are runs of positions. Every rule derives some text, and rule 0 is the
/// start: one production of one position.
struct Productions {
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  struct Position {
    enum class Kind : uint8_t { kTerminal, kRule, kEnd };
    Kind kind = Kind::kEnd;
    bool skippable = false;  ///< it may be passed without reading a byte
    uint32_t index = 0;      ///< of the terminal or rule; kEnd: the rule that ends here
    uint32_t rule = 0;       ///< of the production
    uint32_t min = 1;        ///< repetitions; 0 if one of them may be empty
    uint32_t max = 1;
  };
  struct Rule {
    std::vector<uint32_t> starts;  ///< first positions of the productions
    bool nullable = false;
  };
  std::unique_ptr<RegexArena> arena;  ///< of the terminals that are regular
  std::vector<Terminal> terminals;
  std::vector<Position> positions;
  std::vector<Rule> rules;

  size_t memory() const;
};

/// Makes the machine of a kJsonSchema, kTextUntil or kText node.
using MachineFactory = std::function<Result<std::unique_ptr<Machine>>(const Grammar::Node&)>;

/// Errors: kInvalidArgument for an undefined rule and for a grammar without any text;
/// kUnsupported beyond kMaxPositions; those of `factory`.
Result<Productions> make_productions(const Grammar& grammar, const MachineFactory& factory);
inline constexpr size_t kMaxPositions = 2'000'000;

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_PRODUCTIONS_H_
