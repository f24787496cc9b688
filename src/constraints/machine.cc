#include "constraints/machine.h"

#include <algorithm>

namespace chimere::constraints {

Machine::~Machine() = default;

CharacterClasses Machine::stays(State state, int32_t /*length*/) {
  CharacterClasses classes = 0;
  for (size_t i = 0; i < kAsciiClasses.size(); ++i) {
    const bool loops = std::ranges::all_of(
        kAsciiClasses[i], [&](char c) { return next(state, static_cast<uint8_t>(c)) == state; });
    if (loops) classes |= static_cast<CharacterClasses>(1U << i);
  }
  return classes;
}

}  // namespace chimere::constraints
