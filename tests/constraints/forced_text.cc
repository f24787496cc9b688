// The tokens that a constraint forces are those that the tokenizer gives for the whole text.
//
//   forced_text GENERATIONS MODEL...
//
// Random texts of calls of tools in several formats, without a model. The tokenizer divides the
// whole text; a constraint that reads its tokens must force no others.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "constraints/constraint.h"
#include "constraints/token_trie.h"
#include "constraints/tool_calls.h"
#include "engine/output_constraint.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace chimere {
namespace {

template <typename T>
T value_of(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(2);
}

struct Counts {
  int64_t tokens = 0;
  int64_t forced = 0;
  int64_t wrong = 0;
};

std::string random_property(std::mt19937& random) {
  constexpr std::string_view kProperties[] = {
      R"({"enum": ["celsius", "fahrenheit", "größer", "日本", ""]})",
      R"({"type": "integer", "minimum": -3, "maximum": 2000})",
      R"({"type": "boolean"})",
      R"({"type": "string", "maxLength": 12})",
      R"({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3})",
      R"({"type": "object", "properties": {"inner_name": {"type": "null"}, "x": {"const": "a  b"}},
          "required": ["inner_name", "x"], "additionalProperties": false})",
      R"({"const": "https://example.org/index.html?q=1#top"})",
  };
  return std::string(kProperties[random() % std::size(kProperties)]);
}

constraints::ToolCallsSpec random_spec(std::mt19937& random) {
  constexpr std::string_view kKeys[] = {"location", "temperature_unit", "größe", "n1",
                                        "a b",      "HTTPHeader",       "名前",  "x-y.z"};
  constraints::ToolCallsSpec spec;
  for (const char* name : {"get_current_weather", "searchDocuments2", "f"}) {
    std::string properties;
    std::string required;
    for (const std::string_view key : kKeys) {
      if (random() % 2 == 0) continue;
      const char* comma = properties.empty() ? "" : ", ";
      properties += comma + ("\"" + std::string(key) + "\": ") + random_property(random);
      required += comma + ("\"" + std::string(key) + "\"");
    }
    std::string schema = R"({"type": "object", "properties": {)";
    schema.append(properties).append(R"(}, "required": [)").append(required);
    schema += R"(], "additionalProperties": false})";
    spec.tools.push_back({name, "", schema, true});
    if (random() % 2 == 0) break;
  }
  spec.choice = constraints::ToolCallsSpec::Choice::kRequired;
  return spec;
}

/// A random text that the constraint allows; nothing if it has not ended after many tokens.
std::optional<std::string> random_text(constraints::Matcher matcher,
                                       const text::Tokenizer& tokenizer, std::mt19937& random) {
  constexpr int kMostTokens = 400;
  std::string text;
  for (int n = 0; n < kMostTokens; ++n) {
    if (matcher.finished()) return text;
    const std::span<const uint32_t> mask = matcher.mask();
    std::vector<int32_t> allowed;
    for (int32_t t = 0; t < tokenizer.n_tokens(); ++t) {
      if ((mask[static_cast<size_t>(t) / 32] >> (static_cast<uint32_t>(t) % 32) & 1U) != 0) {
        allowed.push_back(t);
      }
    }
    if (allowed.empty() || !matcher.status().ok()) return std::nullopt;
    const int32_t token = allowed[random() % allowed.size()];
    if (tokenizer.is_end_of_generation(token)) return text;
    if (matcher.accept(token)) text += tokenizer.token_bytes(token, true);
  }
  return std::nullopt;
}

/// Reads the tokens of a text, and compares those that are forced.
Counts read(constraints::Matcher matcher, const text::Tokenizer& tokenizer,
            const std::string& text) {
  engine::OutputConstraint constraint(std::move(matcher), tokenizer, tokenizer.n_tokens());
  Counts counts;
  std::string before;
  for (const int32_t token : tokenizer.encode(text, true)) {
    const bool forced = constraint.certain();
    ++counts.tokens;
    counts.forced += forced ? 1 : 0;
    const auto accepted = constraint.accept(token);
    if (accepted.ok() && *accepted) {
      before += tokenizer.token_bytes(token, true);
      continue;
    }
    // The constraint forces another token, or it does not know this one at all.
    ++counts.wrong;
    const auto mask = constraint.allowed();
    std::string other;
    for (int32_t t = 0; forced && t < tokenizer.n_tokens(); ++t) {
      if ((mask->data()[static_cast<size_t>(t) / 32] >> (static_cast<uint32_t>(t) % 32) & 1U) !=
          0) {
        other = tokenizer.token_bytes(t, true);
      }
    }
    std::printf("forced '%s', not '%s', behind: %s\n", other.c_str(),
                tokenizer.token_bytes(token, true).c_str(),
                before.substr(before.size() - std::min<size_t>(before.size(), 60)).c_str());
    break;
  }
  return counts;
}

/// False if a forced token is wrong, or too few generations say something.
bool check(const std::string& model, int generations, std::mt19937& random) {
  constexpr std::string_view kFormats[] = {"<tool_call>", "<function=",          "<arg_key>",
                                           "[ARGS]",      "<|tool_list_start|>", "<|tool_call|>"};
  const auto file = value_of(gguf::Reader::open(model));
  const auto tokenizer =
      value_of(text::Tokenizer::create(value_of(model::vocabulary_from_gguf(*file))));
  const auto trie = constraints::TokenTrie::create(*tokenizer);
  Counts sum;
  int whole = 0;
  for (int i = 0; i < generations; ++i) {
    const auto format =
        text::written_tool_format(kFormats[static_cast<size_t>(i) % std::size(kFormats)]);
    const auto spec =
        value_of(constraints::tool_calls_constraint(format, random_spec(random), *tokenizer));
    const auto constraint = value_of(constraints::Constraint::compile(spec, trie));
    const auto text = random_text(constraint->matcher(), *tokenizer, random);
    if (!text) continue;
    const Counts counts = read(constraint->matcher(), *tokenizer, *text);
    ++whole;
    sum.tokens += counts.tokens;
    sum.forced += counts.forced;
    sum.wrong += counts.wrong;
  }
  std::printf("%s: %d of %d generations, %lld tokens, %lld forced, %lld not canonical\n",
              model.c_str(), whole, generations, static_cast<long long>(sum.tokens),
              static_cast<long long>(sum.forced), static_cast<long long>(sum.wrong));
  return sum.wrong == 0 && 2 * whole > generations && 5 * sum.forced > sum.tokens;
}

}  // namespace
}  // namespace chimere

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: forced_text GENERATIONS MODEL...\n");
    return 2;
  }
  std::mt19937 random(chimere::fresh_seed());
  bool good = true;
  for (int i = 2; i < argc; ++i) good = chimere::check(argv[i], std::atoi(argv[1]), random) && good;
  return good ? 0 : 1;
}
