// Parses arbitrary bytes as a GBNF grammar and walks through its automaton: an error, or states
// none of which is a dead end.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "constraints/earley_machine.h"
#include "constraints/gbnf.h"
#include "constraints/productions.h"
#include "fuzz.h"

namespace constraints = chimere::constraints;

namespace {

constexpr size_t kMaxSize = 4096;
constexpr int kSteps = 48;

constexpr std::string_view kSeeds[] = {
    "root ::= \"a\" [b-z]* (\"x\" | y)? # comment\ny ::= root{0,3} | \"\\u00e9\"",
    "root ::= ws (\"[\" (root (\",\" root)*)? \"]\") ws\nws ::= [ \\t\\n]{0,20}",
    "root ::= root root | \"a\" | \"\"",
    "root ::= [^\"\\\\\\x00-\\x1f]+ . <[12]>\n  | \"b\"{2,}",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxSize) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto grammar = constraints::parse_gbnf(text, nullptr);
  if (!grammar.ok()) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  auto productions = constraints::make_productions(*grammar, nullptr);
  if (!productions.ok()) {
    if (productions.error().message.empty()) std::abort();
    return 0;
  }
  constraints::EarleyMachine machine(*std::move(productions));
  constraints::WorkMeter meter;
  meter.begin(constraints::kWorkPerCall);
  machine.count_work(meter);
  constraints::State state = machine.start();
  uint32_t random = 1;
  for (int step = 0; step < kSteps && machine.status().ok() && !meter.exhausted(); ++step) {
    random = random * 1664525 + 1013904223;
    const constraints::ByteSet bytes = machine.first_bytes(state);
    constraints::State next = constraints::kDead;
    for (uint32_t i = 0; i < 256 && next == constraints::kDead; ++i) {
      const auto byte = static_cast<uint8_t>((random >> 16) + i);
      next = machine.next(state, byte);
      if (next != constraints::kDead && !bytes[byte]) {
        std::fprintf(stderr, "first_bytes() lacks a byte\n");
        std::abort();
      }
    }
    if (next == constraints::kDead) {
      if (!machine.accepts(state) && machine.status().ok() && !meter.exhausted()) {
        std::fprintf(stderr, "a dead end\n");
        std::abort();
      }
      break;
    }
    state = next;
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
