// Reads arbitrary bytes as a pattern and walks its automata: an error, or machines that agree with
// the expression and never run into a dead end.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "constraints/json_string.h"
#include "constraints/regex_machine.h"
#include "fuzz.h"

namespace constraints = chimere::constraints;

namespace {

constexpr std::string_view kSeeds[] = {
    "^[a-z][a-z0-9_-]{0,62}$",
    "(?=.*\\d)(?!.*  )[^\\s]{8,}",
    "^(?:(?!stop).)*$|\\bword\\b",
    "(?<year>\\d{4})-(?<!x)\\d{2}|\\p{Lu}\\P{L}\\u{1F600}\\uD83D\\uDE00",
    "(a|b?|(c{2,5}){1000000}){3,}?[^\\]\\-\\w-]",
    "^(([^<>()[\\]\\\\.,;:\\s@\"]+(\\.[^<>()[\\]\\\\.,;:\\s@\"]+)*)|(\".+\"))@(([^<>()[\\]]+\\.)+)"
    "$",
};

/// Follows the bytes while they lead on, then looks for an end as a model would that writes any
/// bytes: each state has a next one until a text is accepted.
void walk(constraints::Machine& machine, std::string_view bytes) {
  constexpr int kSteps = 48;
  constraints::State state = machine.start();
  size_t at = 0;
  for (int step = 0; step < kSteps; ++step) {
    constraints::State next = constraints::kDead;
    const auto wish = static_cast<uint8_t>(at < bytes.size() ? bytes[at++] : 0);
    for (int offset = 0; offset < 256 && next == constraints::kDead; ++offset) {
      next = machine.next(state, static_cast<uint8_t>(wish + offset));
    }
    if (next == constraints::kDead) {
      if (machine.accepts(state)) return;
      std::fprintf(stderr, "a dead end\n");
      std::abort();
    }
    state = next;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view pattern = input.substr(0, cut);
  const std::string_view rest = cut == std::string_view::npos ? pattern : input.substr(cut + 1);
  constraints::RegexArena arena;
  const auto parsed = arena.parse(pattern, constraints::RegexSyntax::kEcma262Search);
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  const auto machine = constraints::RegexMachine::create(arena, *parsed);
  if (machine.ok()) {
    walk(**machine, rest);
    constraints::State state = (*machine)->start();
    for (const char c : rest) state = (*machine)->next(state, static_cast<uint8_t>(c));
    if ((*machine)->accepts(state) != arena.matches(*parsed, rest)) std::abort();
  }
  constraints::JsonStringMachine::Options options;
  options.min_length = size % 5;
  options.max_length = options.min_length + size % 31;
  const auto string = constraints::JsonStringMachine::create(arena, *parsed, options);
  if (string.ok()) walk(**string, "\"" + std::string(rest));
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
