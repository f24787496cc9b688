#include "protocol/generation_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "protocol/output_format.h"

namespace chimere::protocol {
namespace {

using Generation = FieldsOf<GenerationFields>;

bool all_texts(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const Json& v) { return v.is_string(); });
}

void read_settings(Fields& fields, const FieldInfo& /*info*/, const RequestLimits& /*limits*/,
                   GenerationFields& out) {
  for (const SettingInfo* setting : settings::all()) {
    if (!setting->field.empty()) read_setting(fields, setting->field, *setting, out.settings);
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
      "'logit_bias' must be an object that maps token ids to numbers from -100 to 100.";
  if (!map->is_object()) return fields.fail(wrong, info.name, "invalid_type");
  if (static_cast<int64_t>(map->size()) > limits.logit_biases) {
    return fields.fail(
        "'logit_bias' names more than " + std::to_string(limits.logit_biases) + " tokens.",
        info.name);
  }
  for (const auto& [key, value] : map->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool number = error == std::errc() && end == key.data() + key.size() && id >= 0;
    if (!number || !value.is_number()) return fields.fail(wrong, info.name);
    const auto bias = value.get<float>();
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

void read_stops(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                GenerationFields& out) {
  const Json* value = fields.any(info.name);
  if (value == nullptr) return;
  if (value->is_string()) {
    out.stop.push_back(value->get<std::string>());
  } else if (all_texts(*value)) {
    if (static_cast<int64_t>(value->size()) > limits.stops) {
      return fields.fail("'stop' has more than " + std::to_string(limits.stops) + " texts.",
                         info.name);
    }
    out.stop = value->get<std::vector<std::string>>();
  } else {
    return fields.fail("'stop' must be a text or a list of texts.", info.name, "invalid_type");
  }
  for (const std::string& stop : out.stop) {
    if (stop.empty() || static_cast<int64_t>(stop.size()) > limits.stop_bytes) {
      return fields.fail(
          "A text of 'stop' must have from 1 to " + std::to_string(limits.stop_bytes) + " bytes.",
          info.name);
    }
  }
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
  if (options->is_object() && !out.stream) {
    return fields.fail("'stream_options' needs \"stream\": true.", info.name);
  }
  read_object(kStreamOptionsType, fields, *options, fields.path_of(info.name), limits, out);
}

constexpr auto kGenerationRows = std::to_array<Generation::Row>({
    Generation::text<&GenerationFields::model>(
        {.name = "model",
         .help = "The name of the served model; another name is the error `model_not_found`",
         .default_value = "the served model"}),
    Generation::integer<&GenerationFields::n>(
        {.name = "n",
         .help = "Choices for each prompt, each with a random stream of its own, derived from "
                 "`seed`; for all prompts together at most 16",
         .min = 1,
         .limit = &RequestLimits::choices,
         .default_value = "1"}),
    {{.members = &describe_settings}, &read_settings},
    Generation::other({.name = "logit_bias",
                       .help = "Added to the logits of at most 1,024 tokens; -100: never",
                       .type_text = "object of token ids with numbers from -100 to 100",
                       .valid = R"([{"5": -100, "6": 2.5}, {}])",
                       .invalid = R"([{"x": 1}, {"1": 101}, {"-1": 1}, {"1": "1"}, [1], 1])"},
                      &read_logit_bias),
    Generation::other(
        {.name = "stop",
         .help = "Texts that end the generation, at most 16 of 1 KiB each; no part of one is "
                 "ever streamed ([in reasoning](serving.md#reasoning))",
         .type_text = "text or list of texts",
         .valid = R"(["a", ["a", "b"], []])",
         .invalid = R"(["", [1], [""], 1, {}])"},
        &read_stops),
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
                       .help = "Only with `stream`",
                       .type_text = "object",
                       .valid = R"([{}, {"include_usage": true}])",
                       .invalid = R"([1, []])",
                       .with = R"("stream": true)",
                       .members = &describe<kStreamOptionsType>},
                      &read_stream_options),
    Generation::no_effect("store"),
    Generation::no_effect("service_tier"),
    Generation::no_effect("prompt_cache_key"),
    Generation::no_effect("prompt_cache_retention"),
    Generation::no_effect("safety_identifier"),
    Generation::no_effect("metadata"),
    Generation::no_effect("user"),
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
  // Valid in OpenAI's range; keeps only the most likely token.
  if (&setting == &settings::kTopP && value.get<double>() == 0) return "1e-06";
  return value.dump();
}

}  // namespace

constexpr ObjectType<GenerationFields> kGenerationType{kGenerationRows};

void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  Settings& settings) {
  const Json* value = fields.any(name);
  if (value == nullptr) return;
  const std::string text = setting_text(fields, name, setting, *value);
  if (fields.failed()) return;
  const Status status = settings.set(setting, text, "'" + std::string(name) + "'");
  if (!status.ok()) fields.fail(status.error().message, name);
}

void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out) {
  int64_t most = 0;
  if (!fields.integer(name, 1, std::numeric_limits<int64_t>::max(), most)) return;
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

}  // namespace chimere::protocol
