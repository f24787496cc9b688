#include "constraints/regex_machine.h"

#include <utility>

#include "constraints/character_automaton.h"

namespace chimere::constraints {

struct RegexMachine::Impl {
  CharacterAutomaton automaton;
};

RegexMachine::RegexMachine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RegexMachine::~RegexMachine() = default;

Result<std::unique_ptr<RegexMachine>> RegexMachine::create(RegexArena& arena, Regex language) {
  CHIMERE_TRY(auto automaton, CharacterAutomaton::create(arena, language, 0, UINT64_MAX,
                                                         CharacterAutomaton::Form::kRaw));
  return std::unique_ptr<RegexMachine>(
      new RegexMachine(std::make_unique<Impl>(Impl{std::move(automaton)})));
}

State RegexMachine::start() { return impl_->automaton.start(); }
State RegexMachine::next(State state, uint8_t byte) { return impl_->automaton.next(state, byte); }
bool RegexMachine::accepts(State state) { return impl_->automaton.accepts(state); }
ByteSet RegexMachine::first_bytes(State state) { return impl_->automaton.first_bytes(state); }
State RegexMachine::mask_class(State state, int32_t longest) {
  return impl_->automaton.mask_class(state, longest);
}
CharacterClasses RegexMachine::stays(State state, int32_t length) {
  return impl_->automaton.stays(state, length);
}
uint64_t RegexMachine::shared_key(State state) { return impl_->automaton.shared_key(state); }
size_t RegexMachine::memory() const { return impl_->automaton.memory(); }

}  // namespace chimere::constraints
