// Random schemas: what the machine accepts is what a simple validator accepts.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/fresh_seed.h"
#include "constraints/json_schema.h"
#include "constraints/json_schema_oracle.h"

namespace chimere::constraints {
namespace {

using nlohmann::json;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  const char* pick(const std::vector<const char*>& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  }
  std::string key() { return pick({"a", "b", "c", "aa", "xy"}); }

  json value(int depth) {
    switch (below(depth > 0 ? 9 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return one_in(2);
      case 2:
      case 3:
        return below(8) - 2;
      case 4:
        return one_in(2) ? json(below(6) / 2.0) : json(0.5 + below(3));
      case 5:
        return pick({"", "a", "b", "ab", "ba", "aab", "c"});
      case 6:
      case 7: {
        json out = json::object();
        for (int i = below(4); i > 0; --i) out[key()] = value(depth - 1);
        return out;
      }
      default: {
        json out = json::array();
        for (int i = below(4); i > 0; --i) out.push_back(value(depth - 1));
        return out;
      }
    }
  }

  json schema(int depth) {
    if (depth <= 0 || one_in(12)) return leaf();
    json out = json::object();
    for (int i = 1 + below(3); i > 0; --i) add_keyword(out, depth);
    return out;
  }

  json root() {
    json out = schema(3);
    if (!out.is_object()) out = json{{"allOf", json::array({out})}};
    targets_ = {"#/$defs/y"};  // a reference in place must not lead back
    const json x = schema(2);
    targets_.clear();
    out["$defs"] = {{"x", x}, {"y", schema(1)}};
    targets_ = {"#/$defs/x", "#/$defs/y"};
    return out;
  }

 private:
  json leaf() {
    switch (below(8)) {
      case 0:
        return true;
      case 1:
        return false;
      case 2:
        return {{"const", value(1)}};
      case 3:
        return {{"enum", {value(1), value(0), value(0)}}};
      case 4:
        return {{"type", "integer"}, {"minimum", below(4)}, {"maximum", 3 + below(4)}};
      case 5:
        return {{"type", "string"}, {"pattern", pick({"^a", "b$", "^[ab]*$", "ab"})}};
      case 6:
        return {{"type", pick({"null", "boolean", "number", "string", "array", "object"})}};
      default:
        return {{"type", {"string", "integer"}}, {"minLength", below(3)}, {"multipleOf", 2}};
    }
  }

  json schemas(int depth) {
    json out = json::array();
    for (int i = 1 + below(3); i > 0; --i) out.push_back(schema(depth - 1));
    return out;
  }

  void add_keyword(json& out, int depth) {
    switch (below(27)) {
      case 0:
      case 1:
      case 2:
      case 3:
        out["properties"][key()] = schema(depth - 1);
        [[fallthrough]];
      case 4:
        out["properties"][key()] = schema(depth - 1);
        break;
      case 5:
        out["required"] = json::array({key()});
        break;
      case 6:
        out["additionalProperties"] = one_in(2) ? json(false) : schema(depth - 1);
        break;
      case 7:
        out["patternProperties"][pick({"^a", "b", "y$"})] = schema(depth - 1);
        break;
      case 8:
        out["propertyNames"] = {{"pattern", pick({"^[abc]", "a", "^.$"})}};
        break;
      case 9:
        out["minProperties"] = below(3);
        break;
      case 10:
        out["maxProperties"] = below(4);
        break;
      case 11:
        out["items"] = schema(depth - 1);
        break;
      case 12:
        out["prefixItems"] = schemas(depth);
        break;
      case 13:
        out["minItems"] = below(3);
        break;
      case 14:
        out["maxItems"] = below(4);
        break;
      case 15:
        out["contains"] = schema(depth - 1);
        if (one_in(2)) out["minContains"] = below(3);
        if (one_in(3)) out["maxContains"] = 1 + below(2);
        break;
      case 16:
        out["uniqueItems"] = true;
        break;
      case 17:
        out["allOf"] = schemas(depth);
        break;
      case 18:
        out["anyOf"] = schemas(depth);
        break;
      case 19:
        out["oneOf"] = schemas(depth);
        break;
      case 20:
        out["not"] = schema(depth - 1);
        break;
      case 21:
        out["if"] = schema(depth - 1);
        if (one_in(2)) out["then"] = schema(depth - 1);
        if (one_in(2)) out["else"] = schema(depth - 1);
        break;
      case 22:
        out["dependentRequired"][key()] = json::array({key()});
        break;
      case 23:
        out["dependentSchemas"][key()] = schema(depth - 1);
        break;
      case 24:
        if (!targets_.empty()) out["$ref"] = pick(targets_);
        break;
      case 25:
        out["properties"][key()] = {{"$ref", pick({"#", "#/$defs/x"})}};
        break;
      default:
        out[one_in(2) ? "unevaluatedProperties" : "unevaluatedItems"] =
            one_in(2) ? json(false) : schema(depth - 1);
    }
  }

  std::mt19937 engine_;
  std::vector<const char*> targets_ = {"#/$defs/x", "#/$defs/y"};
};

bool accepts(JsonSchemaMachine& machine, std::string_view text) {
  State state = machine.start();
  for (const char c : text) state = machine.next(state, static_cast<uint8_t>(c));
  return machine.accepts(state);
}

/// A random document of the machine, or nothing if it gets too long. From every state that is
/// reached the document can be completed.
std::string walk(JsonSchemaMachine& machine, Random& random, const json& schema) {
  static constexpr std::string_view kBytes = "{}[]\":,-0123456789.abcxynulltruefalse";
  std::string text;
  State state = machine.start();
  while (text.size() < 3'000) {
    const bool closes = text.size() > 400;
    if (machine.accepts(state) && (closes || random.one_in(2))) return text;
    std::string allowed;
    for (int byte = '\t'; byte < 0x7F; ++byte) {
      if (machine.next(state, static_cast<uint8_t>(byte)) != kDead) {
        allowed += static_cast<char>(byte);
      }
    }
    if (allowed.empty()) {
      // Names of one character have used up all of ASCII; the oracle's patterns know no others.
      for (int byte = 0x80; byte <= 0xFF; ++byte) {
        if (machine.next(state, static_cast<uint8_t>(byte)) != kDead) return "";
      }
      // Behind a root number, for instance, nothing may follow.
      EXPECT_TRUE(machine.accepts(state))
          << "dead end after " << text << "\n"
          << (machine.status().ok() ? "" : machine.status().error().message) << "\n"
          << schema;
      return machine.accepts(state) ? text : "";
    }
    std::string likely;
    for (const char c : allowed) {
      if (kBytes.find(c) != std::string_view::npos) likely += c;
    }
    // Brackets and quotes end what is open.
    std::string closing;
    for (const char c : allowed) {
      if (c == '}' || c == ']' || c == '"') closing += c;
    }
    const bool ends = closes || random.below(300) < 60 + static_cast<int>(text.size());
    const std::string& from = !closing.empty() && ends              ? closing
                              : likely.empty() || random.one_in(40) ? allowed
                                                                    : likely;
    const char byte = from[static_cast<size_t>(random.below(static_cast<int>(from.size())))];
    text += byte;
    state = machine.next(state, static_cast<uint8_t>(byte));
  }
  return "";
}

/// Strings, numbers and so on of a document.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '"') {
      while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      ++end;
    } else if (std::string_view("{}[],: \n\t").find(text[i]) == std::string_view::npos) {
      end = std::min(text.find_first_of("{}[],: \n\t", i), text.size());
    }
    if (std::string_view(" \n\t").find(text[i]) == std::string_view::npos) {
      parts.emplace_back(text.substr(i, end - i));
    }
    i = end;
  }
  return parts;
}

/// A document as programs print it; without `indent` on one line, without `space` compact.
std::string printed(const std::vector<std::string>& parts, const char* space, const char* indent) {
  std::string out;
  int depth = 0;
  const auto line = [&] {
    if (indent == nullptr) return;
    out += '\n';
    for (int i = 0; i < depth; ++i) out += indent;
  };
  std::string before;
  for (const std::string& part : parts) {
    const bool opened = before == "{" || before == "[";
    const bool closes = part == "}" || part == "]";
    depth += (opened ? 1 : 0) - (closes ? 1 : 0);
    if (before == ":" || (before == "," && indent == nullptr)) out += space;
    if (opened ? !closes : closes || before == ",") line();
    out += part;
    before = part;
  }
  return out;
}

/// Whether the document is written as programs print it.
bool is_canonical(std::string_view text) {
  static const std::regex kNumber(
      R"(-?(0|[1-9]\d{0,18})(\.(?=0*[1-9]?\d{0,16}([eE]|$))\d+)?([eE][-+]?\d{1,3})?)");
  const std::vector<std::string> parts = parts_of(text);
  for (const std::string& part : parts) {
    const bool number = part[0] == '-' || (part[0] >= '0' && part[0] <= '9');
    if (number && (part == "-0" || !std::regex_match(part, kNumber))) return false;
    if (part[0] == '"' && json::parse(part).dump() != part) return false;
  }
  if (text == printed(parts, " ", nullptr) || text == printed(parts, "", nullptr)) return true;
  std::vector<std::string> indents = {"\t"};
  for (size_t n = 1; n <= 8; ++n) indents.emplace_back(n, ' ');
  return std::ranges::any_of(indents, [&](const std::string& indent) {
    return text == printed(parts, " ", indent.c_str());
  });
}

struct Counts {
  int refused = 0;
  int documents = 0;
  int unfinished = 0;
  int rejected_valid = 0;
  int checked_valid = 0;
};

/// Compares one random schema with the simple validator.
void check_schema(uint32_t seed, Counts& counts) {
  Random random(seed);
  const json schema = random.root();
  testing::SchemaOracle oracle(schema);
  const bool open = random.one_in(2);
  auto machine = JsonSchemaMachine::create(
      schema.dump(), {.whitespace = {}, .undeclared_properties = open, .canonical = !open});
  std::vector<json> instances;
  for (int i = 0; i < 60; ++i) instances.push_back(random.value(3));
  if (!machine.ok()) {
    ++counts.refused;
    if (machine.error().message.find("contradicts itself") == std::string::npos) return;
    for (const json& instance : instances) {
      // Which is said of a few schemas whose values are hard to tell apart, too.
      counts.rejected_valid += oracle.valid(instance) ? 1 : 0;
    }
    return;
  }
  for (const json& instance : instances) {
    const bool valid = oracle.valid(instance);
    const bool accepted = accepts(**machine, instance.dump());
    ASSERT_FALSE(accepted && !valid) << schema << "\n" << instance;
    counts.checked_valid += valid ? 1 : 0;
    counts.rejected_valid += open && valid && !accepted ? 1 : 0;
    if (open && valid && !accepted && std::getenv("CHIMERE_SHOW_REJECTED") != nullptr) {
      std::printf("rejected %s\n  of %s\n", instance.dump().c_str(), schema.dump().c_str());
    }
  }
  for (int i = 0; i < 5; ++i) {
    const std::string text = walk(**machine, random, schema);
    ASSERT_FALSE(::testing::Test::HasFailure());
    counts.unfinished += text.empty() ? 1 : 0;
    if (text.empty()) continue;
    ++counts.documents;
    const json document = json::parse(text, nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << schema << "\n" << text;
    ASSERT_TRUE(oracle.valid(document)) << schema << "\n" << text;
    ASSERT_TRUE(open || is_canonical(text)) << schema << "\n" << text;
  }
  // What is refused is refused before a document begins.
  ASSERT_TRUE((*machine)->status().ok()) << (*machine)->status().error().message << "\n" << schema;
}

uint32_t seed_of(uint32_t seed, uint32_t round) { return seed + round * 7919; }

TEST(JsonSchemaRandom, AgreesWithASimpleValidator) {
  const char* scale = std::getenv("CHIMERE_RANDOM_SCHEMAS");
  const int count = scale != nullptr ? std::atoi(scale) : 500;
  const uint32_t seed = fresh_seed();
  Counts counts;
  for (int round = 0; round < count; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    check_schema(seed_of(seed, static_cast<uint32_t>(round)), counts);
    if (HasFatalFailure()) return;
  }
  std::printf(
      "seed %u: %d schemas, %d refused, %d documents, %d too long, valid rejected %d of %d\n", seed,
      count, counts.refused, counts.documents, counts.unfinished, counts.rejected_valid,
      counts.checked_valid);
  EXPECT_LT(counts.refused, count / 2);
  EXPECT_GT(counts.documents, count / 2);
  EXPECT_LE(counts.rejected_valid * 200, counts.checked_valid + 200);
}

/// Schemas that earlier runs with fresh seeds found.
TEST(JsonSchemaRandom, FindingsOfFreshSeeds) {
  struct Finding {
    uint32_t seed, round;
    const char* what;
  };
  constexpr Finding kFindings[] = {
      {627822720, 2239, "enum of an object below oneOf, unevaluatedProperties: false"},
      {1181843681, 2388, "const of an object below oneOf after $ref, unevaluatedProperties: false"},
      {728385969, 2252, "enum of an object in if, unevaluatedProperties: false"},
      {3735609526, 632, "dead end after an opening brace"},
      {2049776716, 1923, "dead end after an opening brace"},
      {77013, 620, "a conjunction that is simplified while it is expanded"},
      {937000203, 233, "150 names, of which one must end with a letter"},
      {944000133, 1494, "150 names, of which one must end with a letter"},
      {77010, 4737, "2,000 different texts for an item, with uniqueItems and contains"},
  };
  for (const Finding& finding : kFindings) {
    SCOPED_TRACE(finding.what);
    Counts counts;
    check_schema(seed_of(finding.seed, finding.round), counts);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace chimere::constraints
