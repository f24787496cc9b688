#include "constraints/productions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "constraints/flatten_recursion.h"
#include "constraints/regex_machine.h"
#include "constraints/regular_parts.h"
#include "constraints/token_trie.h"

namespace chimere::constraints {
namespace {

using Position = Productions::Position;

/// Translates a grammar node by node. Parts of a node have smaller indices, so that no recursion is
/// needed.
class ProductionBuilder {
 public:
  ProductionBuilder(const Grammar& grammar, const MachineFactory& factory)
      : grammar_(grammar), factory_(factory) {}

  Result<Productions> build();

 private:
  /// What a node has become.
  struct Symbol {
    Position::Kind kind = Position::Kind::kEnd;  ///< kEnd: nothing yet
    uint32_t index = 0;
  };

  Status translate(Grammar::Id id);
  std::optional<Regex> regular(Grammar::Id id) const { return regular_[static_cast<size_t>(id)]; }
  Result<Position> position_of(Grammar::Id id);
  Result<Position> regular_terminal(Regex language);
  Status add_repeat(const Grammar::Node& node);
  Status add_sequence(const std::vector<Grammar::Id>& parts);
  Result<Symbol> terminal(const Grammar::Node& node);
  uint32_t add_rule() {
    out_.rules.emplace_back();
    return static_cast<uint32_t>(out_.rules.size() - 1);
  }
  void begin_production(uint32_t rule) {
    out_.rules[rule].starts.push_back(static_cast<uint32_t>(out_.positions.size()));
  }
  void end_production(uint32_t rule) {
    Position end;
    end.index = rule;
    out_.positions.push_back(end);
  }
  Status add_production(uint32_t rule, Grammar::Id id);
  template <typename Done>
  std::vector<uint8_t> fixpoint(Done&& done) const;
  void find_nullable();
  Status remove_unproductive();

  const Grammar& grammar_;
  const MachineFactory& factory_;
  Productions out_;
  std::vector<Symbol> symbols_;                ///< by node
  std::vector<std::optional<Regex>> regular_;  ///< by node
  std::map<std::pair<Grammar::Kind, std::string>, uint32_t> machines_;
  std::map<Regex, uint32_t> regular_terminals_;
};

bool has_byte(const ByteSet& set, uint8_t byte) { return set[byte]; }

Result<ProductionBuilder::Symbol> ProductionBuilder::terminal(const Grammar::Node& node) {
  Terminal made;
  const auto add = [&] {
    out_.terminals.push_back(std::move(made));
    return Symbol{Position::Kind::kTerminal, static_cast<uint32_t>(out_.terminals.size() - 1)};
  };
  switch (node.kind) {
    case Grammar::Kind::kToken:
      for (const uint8_t byte : token_symbol(node.value)) made.text += static_cast<char>(byte);
      made.bytes.set(kTokenByte);
      return add();
    case Grammar::Kind::kLiteral:
      made.text = node.text;
      made.nullable = made.text.empty();
      if (!made.text.empty()) made.bytes.set(static_cast<uint8_t>(made.text[0]));
      return add();
    case Grammar::Kind::kBytes:
      made.kind = Terminal::Kind::kBytes;
      made.bytes = node.bytes;
      return add();
    case Grammar::Kind::kCharacters:
      made.kind = Terminal::Kind::kCharacters;
      made.ranges = node.ranges;
      for (const Grammar::Range& range : node.ranges) {
        for (char32_t code = range.first; code <= std::min<char32_t>(range.last, 0x7F); ++code) {
          made.bytes.set(code);
        }
        if (range.last > 0x7F) {
          for (size_t byte = 0xC2; byte <= 0xF4; ++byte) made.bytes.set(byte);
        }
      }
      return add();
    default:
      break;
  }
  const auto [found, is_new] =
      machines_.try_emplace({node.kind, node.text}, static_cast<uint32_t>(out_.terminals.size()));
  if (!is_new) return Symbol{Position::Kind::kTerminal, found->second};
  made.kind = Terminal::Kind::kMachine;
  CHIMERE_TRY(made.machine, factory_(node));
  made.start = made.machine->start();
  if (made.start != kDead) {
    made.nullable = made.machine->accepts(made.start);
    made.bytes = made.machine->first_bytes(made.start);
    made.delimited = node.kind == Grammar::Kind::kTextUntil;
    if (node.kind == Grammar::Kind::kJsonSchema) {
      // Of all JSON values, only numbers do not show where they end.
      made.delimited = true;
      for (const char c : std::string_view("-0123456789")) {
        const auto byte = static_cast<uint8_t>(c);
        if (has_byte(made.bytes, byte) && made.machine->next(made.start, byte) != kDead) {
          made.delimited = false;
        }
      }
    }
  }
  return add();
}

/// Terminals are made when they are needed: most nodes are parts of a larger one.
Result<Position> ProductionBuilder::position_of(Grammar::Id id) {
  const Grammar::Node& node = grammar_.nodes()[static_cast<size_t>(id)];
  Symbol& symbol = symbols_[static_cast<size_t>(id)];
  if (symbol.kind == Position::Kind::kEnd) {
    if (regular(id) && node.kind != Grammar::Kind::kLiteral &&
        node.kind != Grammar::Kind::kCharacters) {
      return regular_terminal(*regular(id));
    }
    CHIMERE_TRY(symbol, terminal(node));
  }
  Position position;
  position.kind = symbol.kind;
  position.index = symbol.index;
  return position;
}

Result<Position> ProductionBuilder::regular_terminal(Regex language) {
  Position position;
  position.kind = Position::Kind::kTerminal;
  position.index = static_cast<uint32_t>(out_.terminals.size());
  const auto [found, is_new] = regular_terminals_.try_emplace(language, position.index);
  if (!is_new) {
    position.index = found->second;
    return position;
  }
  Terminal& made = out_.terminals.emplace_back();
  made.kind = Terminal::Kind::kMachine;
  auto machine = RegexMachine::create(*out_.arena, language);
  if (!machine.ok()) {
    // A language without texts makes its production useless, which is no error.
    if (machine.error().code == Error::Code::kInvalidArgument) return position;
    return std::move(machine).error();
  }
  made.machine = *std::move(machine);
  made.start = made.machine->start();
  made.nullable = made.machine->accepts(made.start);
  made.bytes = made.machine->first_bytes(made.start);
  return position;
}

/// Adds the positions of a sequence. Regular parts in a row are read as one.
Status ProductionBuilder::add_sequence(const std::vector<Grammar::Id>& parts) {
  for (size_t i = 0; i < parts.size();) {
    std::vector<Regex> row;
    while (i + row.size() < parts.size() && regular(parts[i + row.size()])) {
      row.push_back(*regular(parts[i + row.size()]));
    }
    if (row.size() > 1) {
      CHIMERE_TRY(const Position position, regular_terminal(out_.arena->concat(row)));
      out_.positions.push_back(position);
      i += row.size();
      continue;
    }
    const Grammar::Node& part = grammar_.nodes()[static_cast<size_t>(parts[i])];
    if (part.kind == Grammar::Kind::kRepeat && !regular(parts[i])) {
      CHIMERE_CHECK_OK(add_repeat(part));
    } else {
      CHIMERE_TRY(const Position position, position_of(parts[i]));
      out_.positions.push_back(position);
    }
    ++i;
  }
  return {};
}

Status ProductionBuilder::add_repeat(const Grammar::Node& node) {
  CHIMERE_TRY(Position position, position_of(node.parts[0]));
  position.min = static_cast<uint32_t>(node.min);
  position.max = node.max < 0 ? Productions::kUnbounded : static_cast<uint32_t>(node.max);
  if (position.max > 0) out_.positions.push_back(position);
  return {};
}

Status ProductionBuilder::add_production(uint32_t rule, Grammar::Id id) {
  const Grammar::Node& node = grammar_.nodes()[static_cast<size_t>(id)];
  begin_production(rule);
  if (regular(id)) {
    CHIMERE_TRY(const Position position, position_of(id));
    out_.positions.push_back(position);
  } else if (node.kind == Grammar::Kind::kSequence) {
    CHIMERE_CHECK_OK(add_sequence(node.parts));
  } else if (node.kind == Grammar::Kind::kRepeat) {
    CHIMERE_CHECK_OK(add_repeat(node));
  } else {
    CHIMERE_TRY(const Position position, position_of(id));
    out_.positions.push_back(position);
  }
  end_production(rule);
  return {};
}

Status ProductionBuilder::translate(Grammar::Id id) {
  const Grammar::Node& node = grammar_.nodes()[static_cast<size_t>(id)];
  Symbol& symbol = symbols_[static_cast<size_t>(id)];
  if (regular(id)) return {};
  switch (node.kind) {
    case Grammar::Kind::kRule:
      symbol = {Position::Kind::kRule, static_cast<uint32_t>(node.value) + 1};
      return {};
    case Grammar::Kind::kChoice: {
      const uint32_t rule = add_rule();
      for (const Grammar::Id part : node.parts) CHIMERE_CHECK_OK(add_production(rule, part));
      symbol = {Position::Kind::kRule, rule};
      break;
    }
    case Grammar::Kind::kSequence:
    case Grammar::Kind::kRepeat: {
      const uint32_t rule = add_rule();
      CHIMERE_CHECK_OK(add_production(rule, id));
      symbol = {Position::Kind::kRule, rule};
      break;
    }
    default:
      return {};
  }
  if (out_.positions.size() > kMaxPositions) {
    return unsupported("the grammar has more than " + std::to_string(kMaxPositions) +
                       " symbols up to here");
  }
  return {};
}

/// By rule: whether some production has only positions that are done, where a rule is done if it
/// is so itself. `done`: whether a position is, if its rule is (given as a flag).
template <typename Done>
std::vector<uint8_t> ProductionBuilder::fixpoint(Done&& done) const {
  std::vector<uint8_t> rules(out_.rules.size(), 0);
  // By rule, the productions that wait for it; each production waits for one rule at a time.
  std::vector<std::vector<uint32_t>> waiting(out_.rules.size());
  std::vector<uint32_t> ready;
  for (const Productions::Rule& rule : out_.rules) {
    ready.insert(ready.end(), rule.starts.begin(), rule.starts.end());
  }
  while (!ready.empty()) {
    uint32_t at = ready.back();
    ready.pop_back();
    for (; out_.positions[at].kind != Position::Kind::kEnd; ++at) {
      const Position& position = out_.positions[at];
      const bool rule_done = position.kind == Position::Kind::kRule && rules[position.index] != 0;
      if (done(position, rule_done)) continue;
      if (position.kind == Position::Kind::kRule && !rule_done) {
        waiting[position.index].push_back(at);
      }
      break;
    }
    const Position& position = out_.positions[at];
    if (position.kind != Position::Kind::kEnd || rules[position.index] != 0) continue;
    rules[position.index] = 1;
    std::vector<uint32_t>& woken = waiting[position.index];
    ready.insert(ready.end(), woken.begin(), woken.end());
    woken.clear();
  }
  return rules;
}

Status ProductionBuilder::remove_unproductive() {
  const auto productive_terminal = [&](uint32_t index) {
    const Terminal& terminal = out_.terminals[index];
    switch (terminal.kind) {
      case Terminal::Kind::kLiteral:
        return true;
      case Terminal::Kind::kBytes:
        return terminal.bytes.any();
      case Terminal::Kind::kCharacters:
        return !terminal.ranges.empty();
      default:
        return terminal.start != kDead;
    }
  };
  const auto productive = [&](const Position& position, bool rule_done) {
    return rule_done || position.min == 0 ||
           (position.kind == Position::Kind::kTerminal && productive_terminal(position.index));
  };
  const std::vector<uint8_t> rules = fixpoint(productive);
  if (rules[0] == 0) {
    return invalid_argument("The grammar matches no text: its root leads back to itself forever.");
  }
  const std::vector<Position> positions = std::exchange(out_.positions, {});
  for (Productions::Rule& rule : out_.rules) {
    const std::vector<uint32_t> starts = std::exchange(rule.starts, {});
    for (const uint32_t start : starts) {
      const auto begin = static_cast<uint32_t>(out_.positions.size());
      bool useful = true;
      uint32_t at = start;
      for (; positions[at].kind != Position::Kind::kEnd && useful; ++at) {
        const Position& position = positions[at];
        const bool some = position.kind == Position::Kind::kRule
                              ? rules[position.index] != 0
                              : productive_terminal(position.index);
        if (some) {
          out_.positions.push_back(position);
        } else {
          useful = position.min == 0;
        }
      }
      if (useful) {
        out_.positions.push_back(positions[at]);
        rule.starts.push_back(begin);
      } else {
        out_.positions.resize(begin);
      }
    }
  }
  return {};
}

void ProductionBuilder::find_nullable() {
  const auto nullable = [&](const Position& position, bool rule_done) {
    return rule_done || position.min == 0 ||
           (position.kind == Position::Kind::kTerminal && out_.terminals[position.index].nullable);
  };
  const std::vector<uint8_t> rules = fixpoint(nullable);
  for (size_t i = 0; i < rules.size(); ++i) out_.rules[i].nullable = rules[i] != 0;
  for (Position& position : out_.positions) {
    if (position.kind == Position::Kind::kEnd) continue;
    position.skippable =
        nullable(position, position.kind == Position::Kind::kRule && rules[position.index] != 0);
    if (position.skippable) position.min = 0;
  }
}

Result<Productions> ProductionBuilder::build() {
  out_.rules.resize(grammar_.rules().size() + 1);  // rule 0, then the grammar's own
  symbols_.resize(grammar_.nodes().size());
  out_.arena = std::make_unique<RegexArena>();
  CHIMERE_TRY(regular_, regular_parts(grammar_, *out_.arena));
  const auto placed = [this](Grammar::Id id, Status status) {
    if (status.ok()) return status;
    Error error = std::move(status).error();
    error.message.insert(0, grammar_.place_of(id));
    return Status(std::move(error));
  };
  for (Grammar::Id id = 0; id < static_cast<Grammar::Id>(symbols_.size()); ++id) {
    CHIMERE_CHECK_OK(placed(id, translate(id)));
  }
  for (size_t i = 0; i < grammar_.rules().size(); ++i) {
    const Grammar::Rule& rule = grammar_.rules()[i];
    if (rule.body < 0) return invalid_argument("The rule " + rule.name + " is not defined.");
    const auto index = static_cast<uint32_t>(i + 1);
    const Grammar::Node& body = grammar_.nodes()[static_cast<size_t>(rule.body)];
    if (regular(rule.body)) continue;  // read where it is referred to
    if (body.kind == Grammar::Kind::kChoice) {
      for (const Grammar::Id part : body.parts) {
        CHIMERE_CHECK_OK(placed(part, add_production(index, part)));
      }
    } else {
      CHIMERE_CHECK_OK(placed(rule.body, add_production(index, rule.body)));
    }
  }
  if (grammar_.root() < 0) return invalid_argument("The grammar has no root.");
  begin_production(0);
  CHIMERE_TRY(const Position root, position_of(grammar_.root()));
  out_.positions.push_back(root);
  end_production(0);
  CHIMERE_CHECK_OK(remove_unproductive());
  find_nullable();
  for (size_t i = out_.positions.size(), rule = 0; i-- > 0;) {
    Position& position = out_.positions[i];
    if (position.kind == Position::Kind::kEnd) rule = position.index;
    position.rule = static_cast<uint32_t>(rule);
  }
  return std::move(out_);
}

}  // namespace

size_t Productions::memory() const {
  size_t bytes =
      arena->memory() + positions.size() * sizeof(Position) + rules.size() * sizeof(Rule);
  for (const Rule& rule : rules) bytes += rule.starts.size() * sizeof(uint32_t);
  for (const Terminal& terminal : terminals) {
    bytes +=
        sizeof(Terminal) + terminal.text.size() + terminal.ranges.size() * sizeof(Grammar::Range);
    if (terminal.machine) bytes += terminal.machine->memory();
  }
  return bytes;
}

Result<Productions> make_productions(const Grammar& grammar, const MachineFactory& factory) {
  const std::optional<Grammar> flat = flatten_recursion(grammar);
  return ProductionBuilder(flat ? *flat : grammar, factory).build();
}

}  // namespace chimere::constraints
