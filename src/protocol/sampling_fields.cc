#include "protocol/sampling_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace chimere::protocol {
namespace {

struct SettingField {
  std::string_view name;
  const SettingInfo& setting;
};

/// The names of the OpenAI API, and those of llama.cpp for fields that it lacks.
const std::array<SettingField, 22>& setting_fields() {
  static const std::array<SettingField, 22> kFields = {{
      {"temperature", settings::kTemperature},
      {"top_p", settings::kTopP},
      {"frequency_penalty", settings::kFrequencyPenalty},
      {"presence_penalty", settings::kPresencePenalty},
      {"seed", settings::kSeed},
      {"top_k", settings::kTopK},
      {"min_p", settings::kMinP},
      {"typical_p", settings::kTypical},
      {"top_n_sigma", settings::kTopNSigma},
      {"xtc_probability", settings::kXtcProbability},
      {"xtc_threshold", settings::kXtcThreshold},
      {"dynatemp_range", settings::kDynatempRange},
      {"dynatemp_exponent", settings::kDynatempExponent},
      {"mirostat", settings::kMirostat},
      {"mirostat_tau", settings::kMirostatEntropy},
      {"mirostat_eta", settings::kMirostatRate},
      {"repeat_penalty", settings::kRepeatPenalty},
      {"repeat_last_n", settings::kPenaltyWindow},
      {"dry_multiplier", settings::kDryMultiplier},
      {"dry_base", settings::kDryBase},
      {"dry_allowed_length", settings::kDryAllowedLength},
      {"dry_penalty_last_n", settings::kDryWindow},
  }};
  return kFields;
}

bool all_texts(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, [](const Json& v) { return v.is_string(); });
}

void read_samplers(Fields& fields, Settings& settings) {
  const Json* list = fields.any("samplers");
  if (list == nullptr) return;
  if (!all_texts(*list) || list->empty()) {
    return fields.fail("'samplers' must be a list of sampler names (see --samplers).", "samplers",
                       "invalid_type");
  }
  std::string names;
  for (const Json& name : *list) names += (names.empty() ? "" : ";") + name.get<std::string>();
  const Status status = settings.set(settings::kSamplers, names, "'samplers'");
  if (!status.ok()) fields.fail(status.error().message, "samplers");
}

void read_breakers(Fields& fields, Settings& settings) {
  const Json* list = fields.any("dry_sequence_breakers");
  if (list == nullptr) return;
  // Each breaker is compared with the whole vocabulary.
  constexpr size_t kMost = 64;
  if (!all_texts(*list) || list->size() > kMost) {
    return fields.fail("'dry_sequence_breakers' must be a list of at most 64 texts.",
                       "dry_sequence_breakers", "invalid_type");
  }
  const Status status =
      settings.set(settings::kDryBreakers, to_text(*list), "'dry_sequence_breakers'");
  if (!status.ok()) fields.fail(status.error().message, "dry_sequence_breakers");
}

void read_logit_bias(Fields& fields, const RequestLimits& limits,
                     std::vector<std::pair<int32_t, float>>& out) {
  const Json* map = fields.any("logit_bias");
  if (map == nullptr) return;
  const auto wrong = [&] {
    fields.fail("'logit_bias' must be an object that maps token ids to numbers from -100 to 100.",
                "logit_bias");
  };
  if (!map->is_object()) return wrong();
  if (static_cast<int64_t>(map->size()) > limits.logit_biases) {
    return fields.fail(
        "'logit_bias' names more than " + std::to_string(limits.logit_biases) + " tokens.",
        "logit_bias");
  }
  for (const auto& [key, value] : map->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool number = error == std::errc() && end == key.data() + key.size() && id >= 0;
    if (!number || !value.is_number()) return wrong();
    const auto bias = value.get<float>();
    if (!(std::abs(bias) <= 100)) return wrong();
    // OpenAI: "values like -100 or 100 should result in a ban or exclusive selection".
    out.emplace_back(id, bias <= -100 ? -INFINITY : bias);
  }
}

void read_engram(Fields& fields, const RequestLimits& limits, std::vector<std::string>& out) {
  const Json* value = fields.any("engram");
  if (value == nullptr) return;
  if (!all_texts(*value) || static_cast<int64_t>(value->size()) > limits.engrams) {
    return fields.fail("'engram' must be a list of at most " + std::to_string(limits.engrams) +
                           " names of engram tables.",
                       "engram", "invalid_type");
  }
  out = value->get<std::vector<std::string>>();
}

void read_stops(Fields& fields, const RequestLimits& limits, std::vector<std::string>& out) {
  const Json* value = fields.any("stop");
  if (value == nullptr) return;
  if (value->is_string()) {
    out.push_back(value->get<std::string>());
  } else if (all_texts(*value)) {
    if (static_cast<int64_t>(value->size()) > limits.stops) {
      return fields.fail("'stop' has more than " + std::to_string(limits.stops) + " texts.",
                         "stop");
    }
    out = value->get<std::vector<std::string>>();
  } else {
    return fields.fail("'stop' must be a text or a list of texts.", "stop", "invalid_type");
  }
  for (const std::string& stop : out) {
    if (stop.empty() || static_cast<int64_t>(stop.size()) > limits.stop_bytes) {
      return fields.fail(
          "A text of 'stop' must have from 1 to " + std::to_string(limits.stop_bytes) + " bytes.",
          "stop");
    }
  }
}

void read_stream(Fields& fields, GenerationFields& out) {
  fields.boolean("stream", out.stream);
  const Json* options = fields.any("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) {
    return fields.fail("'stream_options' must be an object.", "stream_options", "invalid_type");
  }
  if (!out.stream) {
    return fields.fail("'stream_options' needs \"stream\": true.", "stream_options");
  }
  Fields inner(*options, "stream_options");
  inner.boolean("include_usage", out.include_usage);
  inner.no_op({"include_obfuscation"});
  if (auto error = inner.finish()) fields.fail(*std::move(error));
}

/// A text, or a list of parts, all of type "text".
bool read_content(Fields& message, const Json& content, const std::string& path, std::string& out) {
  if (content.is_string()) {
    out = content.get<std::string>();
    return true;
  }
  if (!content.is_array() || content.empty()) {
    message.fail("'" + path + "' must be a text or a list of parts.", "content", "invalid_type");
    return false;
  }
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string part_path = path + "[" + std::to_string(i) + "]";
    if (!content[i].is_object()) {
      message.fail(bad_field("'" + part_path + "' must be an object.", part_path, "invalid_type"));
      return false;
    }
    Fields part(content[i], part_path);
    std::string type;
    std::string text;
    part.text("type", type);
    if (!part.failed() && type != "text") {
      part.fail("'" + part_path + "' is not of type \"text\"; this model accepts text only.",
                "type", "unsupported_content");
    }
    if (!part.text("text", text)) {
      part.fail("'" + part_path + ".text' is missing.", "text", "missing_field");
    }
    if (auto error = part.finish()) {
      message.fail(*std::move(error));
      return false;
    }
    out += text;
  }
  return true;
}

std::optional<ApiError> read_message(const Json& value, const std::string& path, ChatMessage& out) {
  if (!value.is_object()) {
    return bad_field("'" + path + "' must be an object.", path, "invalid_type");
  }
  Fields fields(value, path);
  if (!fields.text("role", out.role)) {
    fields.fail("'" + path + ".role' is missing.", "role", "missing_field");
  }
  if (out.role == "developer") out.role = "system";  // templates use the older name
  if (out.role == "tool" || out.role == "function") {
    fields.fail("This server does not support tools yet, nor messages of that role.", "role",
                "unsupported_value");
  } else if (out.role != "system" && out.role != "user" && out.role != "assistant") {
    fields.fail("'" + path + ".role' must be system, developer, user or assistant.", "role");
  }
  fields.text("name", out.name);
  fields.refuse("tool_calls", "this server does not support tools yet");
  fields.refuse("function_call", "this server does not support tools yet");
  fields.refuse("refusal", "refusals are part of the text here");
  fields.refuse("audio", "this model accepts text only");
  fields.refuse("annotations", "this model accepts text only");
  if (out.role == "assistant") fields.text("reasoning_content", out.reasoning_content);
  if (const Json* content = fields.any("content")) {
    read_content(fields, *content, path + ".content", out.content);
  } else if (out.role != "assistant" || out.reasoning_content.empty()) {
    fields.fail("'" + path + ".content' is missing.", "content", "missing_field");
  }
  return fields.finish();
}

}  // namespace

void read_setting(Fields& fields, std::string_view name, const SettingInfo& setting,
                  Settings& settings) {
  const Json* value = fields.any(name);
  if (value == nullptr) return;
  if (!value->is_number()) {
    return fields.fail("'" + std::string(name) + "' must be a number.", name, "invalid_type");
  }
  std::string text = value->dump();
  // Valid in OpenAI's range; keeps only the most likely token.
  if (name == "top_p" && value->get<double>() == 0) text = "1e-06";
  const Status status = settings.set(setting, text, "'" + std::string(name) + "'");
  if (!status.ok()) fields.fail(status.error().message, name);
}

void read_generation(Fields& fields, const Settings& defaults, const RequestLimits& limits,
                     GenerationFields& out) {
  out.settings = defaults;
  fields.text("model", out.model);
  fields.integer("n", 1, limits.choices, out.n);
  for (const SettingField& f : setting_fields()) {
    read_setting(fields, f.name, f.setting, out.settings);
  }
  read_samplers(fields, out.settings);
  read_breakers(fields, out.settings);
  read_logit_bias(fields, limits, out.logit_bias);
  read_stops(fields, limits, out.stop);
  read_engram(fields, limits, out.engram);
  read_stream(fields, out);
  fields.no_op({"store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
                "safety_identifier", "metadata", "user"});
}

void read_max_tokens(Fields& fields, std::string_view name, GenerationFields& out) {
  int64_t most = 0;
  if (!fields.integer(name, 1, std::numeric_limits<int64_t>::max(), most)) return;
  out.max_tokens = {std::string(name), most};
  constexpr int64_t kLargest = 1 << 24;
  const std::string text = std::to_string(std::min(most, kLargest));
  const Status status = out.settings.set(settings::kMaxTokens, text, fields.path_of(name));
  if (!status.ok()) fields.fail(status.error().message, name);
}

void read_messages(Fields& fields, const RequestLimits& limits, std::vector<ChatMessage>& out) {
  const Json* list = fields.any("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    return fields.fail("'messages' must be a list of at least one message.", "messages",
                       list == nullptr ? "missing_field" : "invalid_type");
  }
  if (static_cast<int64_t>(list->size()) > limits.messages) {
    return fields.fail("'messages' has more than " + std::to_string(limits.messages) + " entries.",
                       "messages");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const auto error =
        read_message((*list)[i], "messages[" + std::to_string(i) + "]", out.emplace_back());
    if (error) return fields.fail(*error);
  }
}

void read_template_kwargs(Fields& fields, std::string& out) {
  const Json* value = fields.any("chat_template_kwargs");
  if (value == nullptr) return;
  if (!value->is_object()) {
    return fields.fail("'chat_template_kwargs' must be an object.", "chat_template_kwargs",
                       "invalid_type");
  }
  for (const char* name :
       {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
    if (value->contains(name)) {
      return fields.fail(
          "'chat_template_kwargs' must not set '" + std::string(name) + "': the server sets it.",
          "chat_template_kwargs");
    }
  }
  out = to_text(*value);
}

bool read_tokens(Fields& fields, const Json& list, const std::string& path,
                 std::vector<int32_t>& out) {
  out.reserve(list.size());
  for (const Json& item : list) {
    const bool number = item.is_number_unsigned() && item.get<uint64_t>() <= INT32_MAX;
    if (!number) {
      fields.fail(bad_field("'" + path + "' must be a list of token ids.", path, "invalid_type"));
      return false;
    }
    out.push_back(item.get<int32_t>());
  }
  return true;
}

void read_prompts(Fields& fields, const std::string& name, int64_t most, std::vector<Prompt>& out) {
  const Json* prompt = fields.any(name);
  const auto wrong = [&] {
    fields.fail("'" + name +
                    "' must be a text, a list of texts, a list of token ids or a list of such "
                    "lists.",
                name, prompt == nullptr ? "missing_field" : "invalid_type");
  };
  if (prompt == nullptr) return wrong();
  if (prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) return wrong();
  if (prompt->front().is_number()) {
    std::vector<int32_t> tokens;
    if (read_tokens(fields, *prompt, name, tokens)) out.emplace_back(std::move(tokens));
    return;
  }
  if (static_cast<int64_t>(prompt->size()) > most) {
    return fields.fail("'" + name + "' has more than " + std::to_string(most) + " entries.", name);
  }
  for (const Json& item : *prompt) {
    if (item.is_string()) {
      out.emplace_back(item.get<std::string>());
    } else if (item.is_array() && !item.empty()) {
      std::vector<int32_t> tokens;
      if (!read_tokens(fields, item, name, tokens)) return;
      out.emplace_back(std::move(tokens));
    } else {
      return wrong();
    }
  }
}

}  // namespace chimere::protocol
