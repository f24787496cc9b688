#include "protocol/generation_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "protocol/foreign_values.h"
#include "protocol/output_format.h"

namespace chimere::protocol {
namespace {

using Generation = FieldsOf<GenerationFields>;

bool all_texts(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const Json& v) { return v.is_string(); });
}

void read_settings(Fields& fields, const FieldInfo& /*info*/, const RequestLimits& limits,
                   GenerationFields& out) {
  for (const SettingInfo* setting : settings::all()) {
    if (setting->field.empty()) continue;
    if (fields.any(setting->field) != nullptr) out.given.push_back(setting->name);
    read_setting(fields, setting->field, *setting, limits, out.settings);
  }
}

void describe_settings(std::vector<FieldInfo>& out) {
  for (const SettingInfo* setting : settings::all()) {
    if (setting->field.empty()) continue;
    out.push_back({.name = setting->field,
                   .help = setting->help,
                   .min = setting->min,
                   .max = setting->max,
                   .setting = setting});
  }
}

void read_logit_bias(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                     GenerationFields& out) {
  const Json* map = fields.any(info.name);
  if (map == nullptr) return;
  const std::string wrong =
      "'logit_bias' must be an object that maps token ids to numbers from -100 to 100, or a list "
      "of "
      "such pairs.";
  if (!map->is_structured()) return fields.fail(wrong, info.name, "invalid_type");
  if (static_cast<int64_t>(map->size()) > limits.logit_biases) {
    return fields.fail(
        "'logit_bias' names more than " + std::to_string(limits.logit_biases) + " tokens.",
        info.name);
  }
  for (const auto& [key, value] : map->items()) {
    // llama.cpp's form is a list of pairs of a token id and a number, or false: never.
    const bool pair = map->is_array();
    if (pair && (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned())) {
      return fields.fail(wrong, info.name);
    }
    const std::string text = pair ? value[0].dump() : key;
    const Json& number = pair ? value[1] : value;
    int32_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    const bool token = error == std::errc() && end == text.data() + text.size() && id >= 0;
    const bool never = pair && number == false;
    if (!token || !(never || number.is_number())) return fields.fail(wrong, info.name);
    const float bias = never ? -100 : number.get<float>();
    if (!(std::abs(bias) <= 100)) return fields.fail(wrong, info.name);
    // OpenAI: "values like -100 or 100 should result in a ban or exclusive selection".
    out.logit_bias.emplace_back(id, bias <= -100 ? -INFINITY : bias);
  }
}

void read_engram(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 GenerationFields& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (!all_texts(*value) || static_cast<int64_t>(value->size()) > limits.engrams) {
    return fields.fail("'engram' must be a list of at most " + std::to_string(limits.engrams) +
                           " names of engram tables.",
                       info.name, "invalid_type");
  }
  out.engram = value->get<std::vector<std::string>>();
}

/// One item of `lora`: {"id": 0, "scale": 0.5}, {"name": "a"}, or "a".
bool read_lora_item(const Json& item, LoraChoice& out) {
  if (item.is_string()) {
    out.name = item.get<std::string>();
    return !out.name.empty();
  }
  if (!item.is_object()) return false;
  for (const auto& [key, value] : item.items()) {
    if (key == "id" && value.is_number_unsigned()) {
      out.id = static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), 1U << 30));
    } else if (key == "name" && value.is_string()) {
      out.name = value.get<std::string>();
    } else if (key == "scale" && value.is_number() && std::abs(value.get<double>()) <= 1e6) {
      out.scale = value.get<double>();
    } else {
      return false;
    }
  }
  return out.name.empty() != (out.id < 0);
}

void read_lora_list(Fields& fields, std::string_view name, const Json& value,
                    std::vector<LoraChoice>& out) {
  constexpr size_t kMost = 64;
  bool valid = value.is_array() && value.size() <= kMost;
  for (size_t i = 0; valid && i < value.size(); ++i) {
    valid = read_lora_item(value[i], out.emplace_back());
  }
  if (valid) return;
  fields.fail("'" + std::string(name) + "' must be a list of at most " + std::to_string(kMost) +
                  R"( adapters like {"id": 0, "scale": 0.5}, {"name": "a", "scale": 1} or "a".)",
              name, "invalid_type");
}

void read_lora(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
               GenerationFields& out) {
  const Json* value = fields.any(info.name);
  if (value != nullptr) read_lora_list(fields, info.name, *value, out.lora.emplace());
}

constexpr auto kStreamOptions = std::to_array<Generation::Row>({
    Generation::boolean<&GenerationFields::include_usage>(
        {.name = "include_usage",
         .help = "A last chunk, with empty `choices`, has the usage",
         .default_value = "false"}),
    Generation::no_effect("include_obfuscation"),
});
constexpr ObjectType<GenerationFields> kStreamOptionsType{kStreamOptions};

void read_stream_options(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                         GenerationFields& out) {
  const Json* options = fields.any(info.name);
  if (options == nullptr) return;
  read_object(kStreamOptionsType, fields, *options, fields.path_of(info.name), limits, out);
}

void read_cache_key(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                    GenerationFields& out) {
  std::string key;
  if (fields.text(info.name, key) && out.cache_key.empty()) out.cache_key = std::move(key);
}

void read_ignore_eos(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     GenerationFields& out) {
  bool ignore = false;
  if (fields.boolean(info.name, ignore) && ignore) out.min_tokens = 1 << 24;
}

void read_repetition_penalty(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                             GenerationFields& out) {
  const Json* const value = fields.any(info.name);
  if (value == nullptr) return;
  const Json* const same = fields.any(settings::kRepeatPenalty.field);
  if (same != nullptr && *same != *value) {
    return fields.fail("'repetition_penalty' and 'repeat_penalty' are the same; give one of them.",
                       info.name, "conflicting_fields");
  }
  out.given.push_back(settings::kRepeatPenalty.name);
  read_setting(fields, info.name, settings::kRepeatPenalty, limits, out.settings);
}

constexpr auto kSamplingRows = std::to_array<Generation::Row>({
    {{.members = &describe_settings}, &read_settings},
});

constexpr auto kCacheScopeRows = std::to_array<Generation::Row>({
    Generation::other({.name = "prompt_cache_key",
                       .help = "[Scope](serving.md#cache-scopes) of the prompt's states in the "
                               "prefix cache, within that of the API key",
                       .default_value = "`user`",
                       .type_text = "text",
                       .valid = R"(["agent-1", ""])",
                       .invalid = "[1, []]"},
                      &read_cache_key),
    Generation::other({.name = "user",
                       .help = "The scope without `prompt_cache_key`",
                       .type_text = "text",
                       .valid = R"(["ann"])",
                       .invalid = "[1, []]"},
                      &read_cache_key),
    Generation::boolean<&GenerationFields::use_cache>(
        {.name = "cache_prompt",
         .help = "Whether the prefix cache is read and written",
         .default_value = "true"}),
});

}  // namespace

constexpr ObjectType<GenerationFields> kSamplingType{kSamplingRows};
constexpr ObjectType<GenerationFields> kCacheScopeType{kCacheScopeRows};

namespace {

constexpr auto kOneChoiceRows = std::to_array<Generation::Row>({
    Generation::text<&GenerationFields::model>(
        {.name = "model",
         .help = "The name of a served model; of one that is alone, any name",
         .default_value = "the served model"}),
    Generation::include<kSamplingType>(),
    Generation::other({.name = "logit_bias",
                       .help = "Added to the logits of at most 1,024 tokens; -100: never",
                       .type_text = "object of token ids with numbers from -100 to 100, or list of "
                                    "pairs",
                       .valid = R"([{"5": -100, "6": 2.5}, {}, [[5, -100], [6, false]]])",
                       .invalid = R"([{"x": 1}, {"1": 101}, {"-1": 1}, {"1": "1"}, [1], 1,
                                      [["x", 1]], [[1, true]]])"},
                      &read_logit_bias),
    Generation::other(
        {.name = "stop",
         .help = "Texts that end the generation, at most 16 of 1 KiB each; no part of one is "
                 "ever streamed ([in reasoning](serving.md#reasoning))",
         .type_text = "text or list of texts",
         .valid = R"(["a", ["a", "b"], [], ""])",
         .invalid = R"([[1], 1, {}])"},
        &read_stops),
    Generation::other(
        {.name = "lora",
         .help =
             "[Adapters](lora.md) of the model with their scales, by `id` or `name`; `[]`: none",
         .type_text = "list of objects or names",
         .valid = R"([[], [{"id": 0, "scale": 0.5}], ["a", {"name": "b"}]])",
         .invalid = R"(["a", [1], [{"id": 0, "name": "a"}], [{"scale": 1}], [{"id": -1}]])"},
        &read_lora),
    Generation::other(
        {.name = "engram",
         .help = "Names of at most 8 [memories](serving.md#memories) that the generation uses",
         .type_text = "list of texts",
         .valid = R"([[], ["a", "b"]])",
         .invalid = R"(["a", [1], ["1", "2", "3", "4", "5", "6", "7", "8", "9"]])"},
        &read_engram),
    Generation::include<kOutputFormatType>(),
    Generation::boolean<&GenerationFields::stream>(
        {.name = "stream",
         .help = "The generation is sent as [server-sent events](serving.md#streams)",
         .default_value = "false"}),
    Generation::other({.name = "stream_options",
                       .help = "Without effect but with `stream`",
                       .type_text = "object",
                       .valid = R"([{}, {"include_usage": true}])",
                       .invalid = R"([1, []])",
                       .members = &describe<kStreamOptionsType>},
                      &read_stream_options),
    Generation::no_effect("store"),
    Generation::no_effect("service_tier"),
    Generation::no_effect("prompt_cache_retention"),
    Generation::no_effect("safety_identifier"),
    Generation::no_effect("metadata"),
    Generation::include<kCacheScopeType>(),
    Generation::integer<&GenerationFields::min_tokens>(
        {.name = "min_tokens",
         .help = "Tokens before which the model cannot end the generation; a stop text still "
                 "does. Not together with tools or a form of the output",
         .max = 1 << 24,
         .default_value = "0"}),
    Generation::other({.name = "ignore_eos",
                       .help = "The model cannot end the generation; needs a limit of the tokens, "
                               "or the context is it",
                       .default_value = "false",
                       .type_text = "true or false",
                       .valid = "[true, false]",
                       .invalid = R"([1, "x"])"},
                      &read_ignore_eos),
    Generation::other({.name = "repetition_penalty",
                       .help = "The same as `repeat_penalty`",
                       .setting = &settings::kRepeatPenalty},
                      &read_repetition_penalty),
});

/// The value of a field as the text of its setting; empty, with an error, if its type is wrong.
std::string setting_text(Fields& fields, std::string_view name, const SettingInfo& setting,
                         const Json& value) {
  const std::string field = "'" + std::string(name) + "' must be ";
  if (setting.json_list || setting.separator != '\0') {
    const auto most = static_cast<size_t>(setting.max);
    const bool fits = setting.separator != '\0' ? !value.empty() : value.size() <= most;
    if (!all_texts(value) || !fits) {
      fields.fail(field + (setting.json_list
                               ? "a list of at most " + std::to_string(most) + " texts."
                               : "a list of names (see --" + std::string(setting.name) + ")."),
                  name, "invalid_type");
      return "";
    }
    if (setting.json_list) return to_text(value);
    std::string names;
    for (const Json& item : value) {
      names += (names.empty() ? "" : std::string(1, setting.separator)) + item.get<std::string>();
    }
    return names;
  }
  switch (setting.kind) {
    case SettingInfo::Kind::kText:
      if (value.is_string()) return value.get<std::string>();
      fields.fail(field + "a text.", name, "invalid_type");
      return "";
    case SettingInfo::Kind::kSwitch:
      if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
      fields.fail(field + "true or false.", name, "invalid_type");
      return "";
    default:
      break;
  }
  if (!value.is_number()) {
    fields.fail(field + "a number " + settings::range_text(setting) + ".", name, "invalid_type");
    return "";
  }
  return value.dump();
}

}  // namespace

constexpr ObjectType<GenerationFields> kOneChoiceType{kOneChoiceRows};

namespace {

constexpr auto kGenerationRows = std::to_array<Generation::Row>({
    Generation::integer<&GenerationFields::n>(
        {.name = "n",
         .help = "Choices for each prompt, each with a random stream of its own, derived from "
                 "`seed`; for all prompts together at most 16",
         .min = 1,
         .limit = &RequestLimits::choices,
         .default_value = "1"}),
    Generation::include<kOneChoiceType>(),
});

}  // namespace

constexpr ObjectType<GenerationFields> kGenerationType{kGenerationRows};

void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  const RequestLimits& limits, Settings& settings) {
  const Json* value = fields.any(name);
  if (value == nullptr) return;
  std::string why;
  const std::string text = setting_text(fields, name, setting, translated(setting, *value, why));
  if (fields.failed()) return;
  if (!why.empty() && limits.notes != nullptr) {
    limits.notes->changed.push_back({fields.path_of(name), why});
  }
  const Status status = settings.set(setting, text, "'" + std::string(name) + "'");
  if (!status.ok()) fields.fail(status.error().message, name);
}

void read_stops(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                GenerationFields& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (value->is_string()) {
    out.stop.push_back(value->get<std::string>());
  } else if (all_texts(*value)) {
    if (static_cast<int64_t>(value->size()) > limits.stops) {
      return fields.fail("'" + std::string(info.name) + "' has more than " +
                             std::to_string(limits.stops) + " texts.",
                         info.name);
    }
    out.stop = value->get<std::vector<std::string>>();
  } else {
    return fields.fail("'" + std::string(info.name) + "' must be a text or a list of texts.",
                       info.name, "invalid_type");
  }
  std::erase(out.stop, "");  // some clients send the empty field of a form
  for (const std::string& stop : out.stop) {
    if (static_cast<int64_t>(stop.size()) > limits.stop_bytes) {
      return fields.fail("A text of '" + std::string(info.name) + "' may have at most " +
                             std::to_string(limits.stop_bytes) + " bytes.",
                         info.name);
    }
  }
}

void turn_reasoning_on(ChatRequest& out) {
  out.given.push_back(settings::kReasoning.name);
  (void)out.settings.set(settings::kReasoning, "auto", "think");  // a valid value
  out.template_kwargs = R"({"enable_thinking":true})";
}

void set_reasoning(Fields& fields, std::string_view name, std::string_view value,
                   ChatRequest& out) {
  out.given.push_back(settings::kReasoning.name);
  const Status status = out.settings.set(settings::kReasoning, value, fields.path_of(name));
  if (!status.ok()) fields.fail(status.error().message, name);
}

void read_think(Fields& fields, std::string_view name, ChatRequest& out) {
  const Json* value = fields.any(name);
  if (value == nullptr || *value == "") return;
  std::string reasoning;
  if (value->is_boolean() && value->get<bool>()) return turn_reasoning_on(out);
  if (value->is_boolean()) {
    reasoning = "none";
  } else if (value->is_string()) {
    reasoning = value->get<std::string>();
  }
  if (effort_of(reasoning).empty()) {
    return fields.fail(
        "'" + fields.path_of(name) + "' must be true, false, none, low, medium or high.", name,
        value->is_string() ? ErrorCode("invalid_value") : "invalid_type");
  }
  set_reasoning(fields, name, effort_of(reasoning), out);
}

void check_continued(Fields& fields, const ChatRequest& request) {
  if (request.messages.empty() || request.messages.back().role != "assistant") return;
  const ChatMessage& last = request.messages.back();
  if (!last.tool_calls.empty()) return;                                // the next message follows
  if (last.content.empty() && last.reasoning_content.empty()) return;  // it is left out
  if (request.format.kind == OutputFormat::Kind::kText) return;
  fields.fail("'" + request.format.field +
                  "' says what the whole output must be, but the last of 'messages' is the "
                  "assistant's, which is continued; end with a message of the user.",
              "messages", "conflicting_fields");
}

void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out, int64_t least) {
  int64_t most = 0;
  if (const Json* value = fields.any(name); value != nullptr && *value == -1) {
    if (!out.max_tokens.first.empty()) return;  // another field has a limit
    (void)out.settings.set(settings::kMaxTokens, "-1", fields.path_of(name));  // a valid value
    return;
  }
  if (!fields.integer(name, least, std::numeric_limits<int64_t>::max(), most)) return;
  if (!out.max_tokens.first.empty() && out.max_tokens.second != most) {
    return fields.fail("'" + out.max_tokens.first + "' is " +
                           std::to_string(out.max_tokens.second) + " and '" + std::string(name) +
                           "' is " + std::to_string(most) + "; give one of them.",
                       name, "conflicting_fields");
  }
  out.max_tokens = {std::string(name), most};
  const auto largest = static_cast<int64_t>(settings::kMaxTokens.max);
  const std::string text = std::to_string(std::min(most, largest));
  const Status status = out.settings.set(settings::kMaxTokens, text, fields.path_of(name));
  if (!status.ok()) fields.fail(status.error().message, name);
}

std::optional<ApiError> parse_lora_scales(std::string_view body, std::vector<LoraChoice>& out) {
  constexpr std::string_view kName = "lora";
  out.clear();
  Json object;
  const std::string wrapped = R"({"lora":)" + std::string(body) + "}";
  if (auto error = parse_object(wrapped, JsonLimits{}, object)) return error;
  Fields fields(object, "");
  if (const Json* list = fields.any(kName)) {
    read_lora_list(fields, kName, *list, out);
  } else {
    fields.missing(kName);
  }
  return fields.finish(RequestLimits{.strict_fields = true});
}

}  // namespace chimere::protocol
