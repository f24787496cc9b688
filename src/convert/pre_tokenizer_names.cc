#include "convert/pre_tokenizer_names.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace chimere::convert {
namespace {

// Expressions as published files have them.
#define CHIMERE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CHIMERE_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define CHIMERE_CASED \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define CHIMERE_CASED_UPPER \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"

constexpr std::string_view kQwen2 = CHIMERE_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr std::string_view kQwen35 = CHIMERE_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr std::string_view kLlama3 = CHIMERE_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr std::string_view kTekken =
    CHIMERE_CASED CHIMERE_CASED_UPPER R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" CHIMERE_SPACES;
constexpr std::string_view kGpt4o =
    CHIMERE_CASED CHIMERE_CONTRACTIONS "?" CHIMERE_CASED_UPPER CHIMERE_CONTRACTIONS
                                       R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" CHIMERE_SPACES;
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit = "\\p{N}";

#undef CHIMERE_CONTRACTIONS
#undef CHIMERE_SPACES
#undef CHIMERE_CASED
#undef CHIMERE_CASED_UPPER

struct Splitting {
  std::vector<std::string> expressions;  ///< in order
  bool nfc = false;
  bool whole_words = false;  ///< a word of the vocabulary is not merged from its parts
};

struct NameRow {
  std::vector<std::string_view> expressions;
  bool nfc;
  bool whole_words;
  std::string_view name;
};

const std::vector<NameRow>& rows() {
  static const std::vector<NameRow> all = {
      {{kQwen2}, true, false, "qwen2"},
      {{kQwen2}, false, false, "stablelm2"},
      {{kQwen35}, true, false, "qwen35"},
      {{kLlama3}, false, true, "llama-bpe"},
      {{kLlama3}, false, false, "dbrx"},
      {{kTekken}, false, true, "tekken"},
      {{kGpt4o}, false, true, "gpt-4o"},
      {{kGpt2}, false, false, "gpt-2"},
      {{kGpt2}, true, false, "olmo"},
      {{kOneDigit, kGpt2}, false, false, "starcoder"},
      {{kOneDigit, kGpt2}, true, false, "command-r"},
  };
  return all;
}

std::string_view type_of(const Json& part) {
  const auto type = part.is_object() ? part.find("type") : part.end();
  if (!part.is_object() || type == part.end() || !type->is_string()) return {};
  return type->get_ref<const std::string&>();
}

bool flag(const Json& part, const char* name, bool otherwise) {
  const auto value = part.find(name);
  return value != part.end() && value->is_boolean() ? value->get<bool>() : otherwise;
}

Error unknown(const std::string& what) {
  constexpr size_t kShown = 300;
  return unsupported("tokenizer.json splits text by " + what.substr(0, kShown) +
                     ", which no pre-tokenizer of this program does");
}

/// The expression of a "Split".
Result<std::string> split_expression(const Json& part) {
  const auto pattern = part.find("pattern");
  if (pattern == part.end() || !pattern->is_object()) {
    return invalid_data("tokenizer.json has a Split without a pattern");
  }
  const auto expression = pattern->find("Regex");
  if (expression == pattern->end() || !expression->is_string()) {
    return unknown("the text " + pattern->dump());
  }
  const auto behavior = part.find("behavior");
  const bool isolated = behavior != part.end() && *behavior == "Isolated";
  const bool removed = behavior != part.end() && *behavior == "Removed";
  const bool inverted = flag(part, "invert", false);
  // What matches is kept, and here everything matches.
  if ((!isolated || inverted) && (!removed || !inverted)) {
    return unknown("a Split with the behavior " + part.dump());
  }
  return expression->get<std::string>();
}

Status read_part(const Json& part, Splitting& out) {
  const std::string_view type = type_of(part);
  if (type == "Sequence") {
    const auto parts = part.find("pretokenizers");
    if (parts == part.end() || !parts->is_array()) {
      return invalid_data("tokenizer.json has a Sequence without pretokenizers");
    }
    for (const Json& inner : *parts) CHIMERE_CHECK_OK(read_part(inner, out));
    return {};
  }
  if (type == "ByteLevel") {
    if (flag(part, "add_prefix_space", false)) {
      return unknown("ByteLevel with add_prefix_space");
    }
    if (flag(part, "use_regex", true)) out.expressions.emplace_back(kGpt2);
    return {};
  }
  if (type == "Digits") {
    const bool single = flag(part, "individual_digits", false);
    out.expressions.emplace_back(single ? std::string(kOneDigit) : std::string("\\p{N}+"));
    return {};
  }
  if (type == "Split") {
    CHIMERE_TRY(std::string expression, split_expression(part));
    out.expressions.push_back(std::move(expression));
    return {};
  }
  return unknown("a " + (type.empty() ? part.dump() : std::string(type)));
}

Status read_normalizer(const Json& part, Splitting& out) {
  const std::string_view type = type_of(part);
  if (type == "NFC") {
    out.nfc = true;
    return {};
  }
  if (type == "Sequence") {
    const auto parts = part.find("normalizers");
    if (parts != part.end() && parts->is_array()) {
      for (const Json& inner : *parts) CHIMERE_CHECK_OK(read_normalizer(inner, out));
      return {};
    }
  }
  return unsupported("tokenizer.json normalises text by " + part.dump().substr(0, 200) +
                     ", which this program does not");
}

}  // namespace

Result<std::string> pre_tokenizer_name(const Json& tokenizer) {
  Splitting found;
  const auto pre = tokenizer.find("pre_tokenizer");
  if (pre == tokenizer.end() || !pre->is_object()) {
    return unknown("nothing at all (pre_tokenizer)");
  }
  CHIMERE_CHECK_OK(read_part(*pre, found));
  const auto normalizer = tokenizer.find("normalizer");
  if (normalizer != tokenizer.end() && normalizer->is_object()) {
    CHIMERE_CHECK_OK(read_normalizer(*normalizer, found));
  }
  const auto model = tokenizer.find("model");
  found.whole_words =
      model != tokenizer.end() && model->is_object() && flag(*model, "ignore_merges", false);
  for (const NameRow& row : rows()) {
    const bool same = std::vector<std::string>(row.expressions.begin(), row.expressions.end()) ==
                      found.expressions;
    if (same && row.nfc == found.nfc && row.whole_words == found.whole_words) {
      return std::string(row.name);
    }
  }
  std::string shown;
  for (const std::string& e : found.expressions) shown += (shown.empty() ? "" : ", then ") + e;
  return unknown((found.nfc ? "normal form C and " : "") + shown +
                 (found.whole_words ? " (ignore_merges)" : ""));
}

}  // namespace chimere::convert
