// Compiles arbitrary bytes as a JSON schema and walks through the machine: an error, or documents
// without dead ends.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "constraints/json_schema.h"
#include "fuzz.h"

namespace constraints = chimere::constraints;

namespace {

// Long schemas go over several literals. NOLINTNEXTLINE(bugprone-suspicious-missing-comma)
constexpr std::string_view kSeeds[] = {
    R"({"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"enum":["x",null,[1]]}},"required":["a"],"additionalProperties":false})",
    R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]},"maxItems":2,"uniqueItems":true}}})",
    R"({"oneOf":[{"required":["a"]},{"properties":{"b":{"multipleOf":3}},"minProperties":1}],"not":{"const":{"a":1}},"unevaluatedProperties":false})",
    R"({"if":{"contains":{"const":5}},"then":{"minItems":2},"else":{"prefixItems":[{"pattern":"^a+$"}]},"maxContains":3,"type":["array","string"],"maxLength":4})",
    R"({"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/y","dependencies":{"a":["b"],"c":{"maximum":2,"exclusiveMaximum":true}},"patternProperties":{"^x":{"$ref":"z#q"}}})",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view schema(reinterpret_cast<const char*>(data), size);
  const bool canonical = size % 2 != 0;
  const auto created = constraints::JsonSchemaMachine::create(
      schema, {.whitespace = {}, .undeclared_properties = !canonical, .canonical = canonical});
  if (!created.ok()) {
    if (created.error().message.empty()) std::abort();
    return 0;
  }
  constraints::JsonSchemaMachine& machine = **created;
  constraints::State state = machine.start();
  uint32_t random = static_cast<uint32_t>(size) * 2654435761U;
  for (int step = 0; step < 60; ++step) {
    constraints::State chosen = constraints::kDead;
    uint32_t count = 0;
    for (int byte = 0; byte < 256; ++byte) {
      const constraints::State next = machine.next(state, static_cast<uint8_t>(byte));
      if (next == constraints::kDead) continue;
      random = random * 1664525U + 1013904223U;
      if ((random >> 8) % ++count == 0) chosen = next;
    }
    if (!machine.status().ok()) return 0;
    if (chosen == constraints::kDead) {
      if (!machine.accepts(state)) std::abort();
      return 0;
    }
    state = chosen;
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
