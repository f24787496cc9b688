#include <utility>

#include "constraints/automaton.h"
#include "constraints/build_machine.h"
#include "constraints/constraint.h"

namespace chimere::constraints {
namespace {

void append_field(std::string& key, std::string_view value) {
  key += std::to_string(value.size()) + ":";
  key += value;
}

void append_number(std::string& key, int64_t value) { key += std::to_string(value) + ";"; }

void append_delimiter(std::string& key, const Delimiter& delimiter) {
  append_field(key, delimiter.text);
  append_number(key, delimiter.token);
}

struct ContentKey {
  std::string& key;

  void operator()(const JsonObjectSpec& /*spec*/) const {}
  void operator()(const JsonSchemaSpec& spec) const { append_field(key, spec.schema); }
  void operator()(const RegexSpec& spec) const { append_field(key, spec.pattern); }
  void operator()(const GbnfSpec& spec) const { append_field(key, spec.text); }
  void operator()(const ChoicesSpec& spec) const {
    for (const std::string& text : spec.texts) append_field(key, text);
  }
  void operator()(const Grammar& grammar) const { append_field(key, grammar.key()); }
  void operator()(const TriggeredSpec& spec) const {
    for (const TriggeredSpec::Trigger& trigger : spec.triggers) {
      append_delimiter(key, trigger.begin);
      append_field(key, trigger.body.key());
      append_number(key, trigger.at_start ? 1 : 0);
    }
    append_number(key, static_cast<int64_t>(spec.excluded.size()));
    for (const std::string& text : spec.excluded) append_field(key, text);
    for (const int64_t value : {int64_t{spec.text_before}, int64_t{spec.text_after},
                                int64_t{spec.min_calls}, int64_t{spec.max_calls}}) {
      append_number(key, value);
    }
  }
};

}  // namespace

std::string ConstraintSpec::key() const {
  std::string key;
  append_number(key, static_cast<int64_t>(content.index()));
  std::visit(ContentKey{key}, content);
  if (reasoning) {
    key += "|";
    append_delimiter(key, reasoning->open);
    append_delimiter(key, reasoning->close);
    append_number(key, reasoning->inside ? 1 : 0);
  }
  return key;
}

Constraint::Constraint(std::shared_ptr<Automaton> automaton) : automaton_(std::move(automaton)) {}

Result<std::shared_ptr<Constraint>> Constraint::compile(const ConstraintSpec& spec,
                                                        std::shared_ptr<const TokenTrie> trie,
                                                        const std::function<void()>& when_slow) {
  WorkMeter meter;
  meter.begin(kWorkPerCompilation);
  const WorkScope scope(meter, when_slow);
  auto built = build_machine(spec, *trie);
  if (meter.exhausted()) {
    return unsupported(
        "The constraint of this request takes too much work to compile: its parts can be combined "
        "in too many ways. Simplify it.");
  }
  CHIMERE_TRY(auto machine, std::move(built));
  return std::shared_ptr<Constraint>(
      new Constraint(std::make_shared<Automaton>(std::move(machine), std::move(trie))));
}

Matcher Constraint::matcher() { return Matcher(automaton_); }

const TokenTrie& Constraint::trie() const { return automaton_->trie(); }

size_t Constraint::memory() const { return sizeof(*this) + automaton_->memory(); }

}  // namespace chimere::constraints
