#include "constraints/build_machine.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "constraints/earley_machine.h"
#include "constraints/gbnf.h"
#include "constraints/json_schema.h"
#include "constraints/productions.h"
#include "constraints/reasoning_machine.h"
#include "constraints/regex.h"
#include "constraints/regex_machine.h"
#include "constraints/regular_parts.h"
#include "constraints/text_machine.h"
#include "constraints/trigger_machine.h"

namespace chimere::constraints {
namespace {

using MachineResult = Result<std::unique_ptr<Machine>>;

/// What machines read for a delimiter.
std::string delimiter_bytes(const Delimiter& delimiter, const TokenTrie& trie) {
  if (delimiter.token < 0) return delimiter.text;
  return std::string(trie.bytes(delimiter.token));
}

template <typename T>
MachineResult as_machine(Result<std::unique_ptr<T>> made) {
  CHIMERE_TRY(std::unique_ptr<Machine> machine, std::move(made));
  return machine;
}

/// A machine of a regular language, with the expressions that it needs.
class OwnedRegexMachine final : public Machine {
 public:
  static MachineResult create(std::unique_ptr<RegexArena> arena, Regex language) {
    CHIMERE_TRY(auto machine, RegexMachine::create(*arena, language));
    return std::unique_ptr<Machine>(new OwnedRegexMachine(std::move(arena), std::move(machine)));
  }

  State start() override { return machine_->start(); }
  State next(State state, uint8_t byte) override { return machine_->next(state, byte); }
  bool accepts(State state) override { return machine_->accepts(state); }
  std::optional<Inner> inner(State state) override {
    Inner inner;
    inner.machine = machine_.get();
    inner.state = state;
    inner.uniform = true;
    inner.last = true;
    return inner;
  }
  size_t memory() const override { return arena_->memory() + machine_->memory(); }

 private:
  OwnedRegexMachine(std::unique_ptr<RegexArena> arena, std::unique_ptr<RegexMachine> machine)
      : arena_(std::move(arena)), machine_(std::move(machine)) {}

  std::unique_ptr<RegexArena> arena_;
  std::unique_ptr<RegexMachine> machine_;
};

MachineResult pattern_machine(std::string_view pattern) {
  auto arena = std::make_unique<RegexArena>();
  CHIMERE_TRY(const Regex language, arena->parse(pattern, RegexSyntax::kEcma262Full));
  return OwnedRegexMachine::create(std::move(arena), language);
}

/// Documents as a careful program prints them. A schema that lists properties means them all, as
/// for other servers that restrict output.
MachineResult schema_machine(std::string_view schema) {
  return as_machine(JsonSchemaMachine::create(
      schema, {.whitespace = {}, .undeclared_properties = false, .canonical = true}));
}

/// The texts of a list of which each has a zero byte behind.
std::vector<std::string> zero_ended(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const size_t end = list.find('\0');
    out.emplace_back(list.substr(0, end));
    list.remove_prefix(end + 1);
  }
  return out;
}

MachineResult machine_of_node(const Grammar::Node& node) {
  using Language = TextMachine::Language;
  using Alphabet = TextMachine::Alphabet;
  switch (node.kind) {
    case Grammar::Kind::kJsonSchema: {
      MachineResult made = schema_machine(node.text);
      if (!made.ok()) return at_place(node.place, std::move(made).error());
      return made;
    }
    case Grammar::Kind::kTextUntil:
      return as_machine(TextMachine::create({node.text}, {}, Language::kUntil, Alphabet::kText));
    case Grammar::Kind::kText:
      return as_machine(
          TextMachine::create({}, zero_ended(node.text), Language::kWithout, Alphabet::kText));
    default:
      return unsupported("This kind of constraint is not supported.");
  }
}

MachineResult grammar_machine(const Grammar& grammar) {
  CHIMERE_TRY(Productions productions, make_productions(grammar, machine_of_node));
  auto machine = std::make_unique<EarleyMachine>(std::move(productions));
  CHIMERE_CHECK_OK(machine->status());
  return std::unique_ptr<Machine>(std::move(machine));
}

struct ContentBuilder {
  const TokenTrie& trie;

  MachineResult operator()(const JsonObjectSpec& /*spec*/) const {
    return (*this)(JsonSchemaSpec{R"({"type":"object"})"});
  }
  MachineResult operator()(const JsonSchemaSpec& spec) const { return schema_machine(spec.schema); }
  MachineResult operator()(const RegexSpec& spec) const { return pattern_machine(spec.pattern); }
  MachineResult operator()(const GbnfSpec& spec) const {
    CHIMERE_TRY(const Grammar grammar,
                parse_gbnf(spec.text, [&](std::string_view text) { return trie.control(text); }));
    return grammar_machine(grammar);
  }
  MachineResult operator()(const ChoicesSpec& spec) const {
    if (spec.texts.empty()) return invalid_argument("There are no choices to choose from.");
    auto arena = std::make_unique<RegexArena>();
    const Regex language = arena->words(spec.texts);
    return OwnedRegexMachine::create(std::move(arena), language);
  }
  MachineResult operator()(const Grammar& grammar) const { return grammar_machine(grammar); }
  MachineResult operator()(const TriggeredSpec& spec) const {
    std::vector<TriggerMachine::Trigger> triggers;
    for (const TriggeredSpec::Trigger& trigger : spec.triggers) {
      TriggerMachine::Trigger& made = triggers.emplace_back();
      made.begin = delimiter_bytes(trigger.begin, trie);
      made.at_start = trigger.at_start;
      CHIMERE_TRY(made.body, grammar_machine(trigger.body));
    }
    TriggerMachine::Options options;
    options.excluded = spec.excluded;
    options.text_before = spec.text_before;
    options.text_after = spec.text_after;
    options.min_calls = spec.min_calls;
    options.max_calls = spec.max_calls;
    return as_machine(TriggerMachine::create(std::move(triggers), options));
  }
};

Delimiter delimiter(const text::ReasoningTags::Tag& tag) {
  return {.text = tag.text, .token = tag.control ? tag.token : -1};
}

}  // namespace

ReasoningSpec reasoning_spec(const text::ReasoningTags& tags, bool inside) {
  return {delimiter(tags.open), delimiter(tags.close), inside};
}

Result<std::unique_ptr<Machine>> build_machine(const ConstraintSpec& spec, const TokenTrie& trie) {
  CHIMERE_TRY(std::unique_ptr<Machine> content, std::visit(ContentBuilder{trie}, spec.content));
  if (content->start() == kDead) return invalid_argument("No text satisfies the constraint.");
  if (!spec.reasoning) return content;
  const ReasoningSpec& reasoning = *spec.reasoning;
  const std::string close = delimiter_bytes(reasoning.close, trie);
  if (close.empty()) return invalid_argument("The reasoning has no closing text.");
  return as_machine(ReasoningMachine::create(delimiter_bytes(reasoning.open, trie), close,
                                             reasoning.inside, std::move(content)));
}

}  // namespace chimere::constraints
