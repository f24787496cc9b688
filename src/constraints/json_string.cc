#include "constraints/json_string.h"

#include <utility>

#include "constraints/character_automaton.h"

namespace chimere::constraints {

struct JsonStringMachine::Impl {
  CharacterAutomaton automaton;
};

JsonStringMachine::JsonStringMachine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JsonStringMachine::~JsonStringMachine() = default;

Result<std::unique_ptr<JsonStringMachine>> JsonStringMachine::create(RegexArena& arena,
                                                                     Regex language,
                                                                     const Options& options) {
  using Form = CharacterAutomaton::Form;
  using Escapes = CharacterAutomaton::Escapes;
  CHIMERE_TRY(auto automaton, CharacterAutomaton::create(
                                  arena, language, options.min_length, options.max_length,
                                  options.opening_quote ? Form::kJson : Form::kJsonAfterOpening,
                                  options.canonical ? Escapes::kRequired : Escapes::kAll));
  return std::unique_ptr<JsonStringMachine>(
      new JsonStringMachine(std::make_unique<Impl>(Impl{std::move(automaton)})));
}

State JsonStringMachine::start() { return impl_->automaton.start(); }
State JsonStringMachine::next(State state, uint8_t byte) {
  return impl_->automaton.next(state, byte);
}
bool JsonStringMachine::accepts(State state) { return impl_->automaton.accepts(state); }
ByteSet JsonStringMachine::first_bytes(State state) { return impl_->automaton.first_bytes(state); }
State JsonStringMachine::mask_class(State state, int32_t longest) {
  return impl_->automaton.mask_class(state, longest);
}
uint64_t JsonStringMachine::shared_key(State state) { return impl_->automaton.shared_key(state); }
CharacterClasses JsonStringMachine::stays(State state, int32_t length) {
  return impl_->automaton.stays(state, length);
}
size_t JsonStringMachine::memory() const { return impl_->automaton.memory(); }

}  // namespace chimere::constraints
