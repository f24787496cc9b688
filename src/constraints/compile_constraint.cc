#include <utility>

#include "base/mutex.h"
#include "constraints/automaton.h"
#include "constraints/build_machine.h"
#include "constraints/constraint.h"

namespace chimere::constraints {
namespace {

/// A new generation gets a new automaton if the states and masks of the old one take more.
constexpr size_t kKeptBytes = size_t{96} << 20;

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

struct Constraint::Current {
  Mutex mutex;
  std::shared_ptr<Automaton> automaton;
};

Constraint::Constraint(ConstraintSpec spec, std::shared_ptr<const TokenTrie> trie)
    : spec_(std::move(spec)), trie_(std::move(trie)), current_(std::make_unique<Current>()) {}
Constraint::~Constraint() = default;

Result<std::shared_ptr<Constraint>> Constraint::compile(const ConstraintSpec& spec,
                                                        std::shared_ptr<const TokenTrie> trie) {
  CHIMERE_TRY(auto machine, build_machine(spec, *trie));
  std::shared_ptr<Constraint> constraint(new Constraint(spec, std::move(trie)));
  constraint->current_->automaton =
      std::make_shared<Automaton>(std::move(machine), constraint->trie_);
  return constraint;
}

Matcher Constraint::matcher() {
  const std::lock_guard lock(current_->mutex);
  if (current_->automaton->memory() > kKeptBytes) {
    // Generations that run keep the old one.
    auto machine = build_machine(spec_, *trie_);
    if (machine.ok()) {
      current_->automaton = std::make_shared<Automaton>(*std::move(machine), trie_);
    }
  }
  return Matcher(current_->automaton);
}

size_t Constraint::memory() const {
  const std::lock_guard lock(current_->mutex);
  return sizeof(*this) + current_->automaton->memory();
}

}  // namespace chimere::constraints
