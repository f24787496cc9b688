#include <algorithm>

#include "protocol/requests.h"
#include "protocol/sampling_fields.h"

namespace chimere::protocol {
namespace {

/// A text, a list of texts, a list of token ids, or a list of such lists.
void read_prompts(Fields& fields, const RequestLimits& limits, std::vector<Prompt>& out) {
  const Json* prompt = fields.any("prompt");
  const auto wrong = [&] {
    fields.fail(
        "'prompt' must be a text, a list of texts, a list of token ids or a list of such "
        "lists.",
        "prompt", prompt == nullptr ? "missing_field" : "invalid_type");
  };
  if (prompt == nullptr) return wrong();
  if (prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) return wrong();
  if (prompt->front().is_number()) {
    std::vector<int32_t> tokens;
    if (read_tokens(fields, *prompt, "prompt", tokens)) out.emplace_back(std::move(tokens));
    return;
  }
  if (static_cast<int64_t>(prompt->size()) > limits.choices) {
    return fields.fail("'prompt' has more than " + std::to_string(limits.choices) + " prompts.",
                       "prompt");
  }
  for (const Json& item : *prompt) {
    if (item.is_string()) {
      out.emplace_back(item.get<std::string>());
    } else if (item.is_array() && !item.empty()) {
      std::vector<int32_t> tokens;
      if (!read_tokens(fields, item, "prompt", tokens)) return;
      out.emplace_back(std::move(tokens));
    } else {
      return wrong();
    }
  }
}

}  // namespace

std::optional<ApiError> parse_completion(std::string_view body, const Settings& defaults,
                                         const RequestLimits& limits, CompletionRequest& out) {
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  fields.refuse("suffix", "models here do not fill in the middle through this field");
  read_generation(fields, defaults, limits, out);
  read_setting(fields, "max_tokens", settings::kMaxTokens, out.settings);
  if (out.settings.get(settings::kMaxTokens) == 0) {
    fields.fail("'max_tokens' must be at least 1.", "max_tokens");
  }
  fields.integer("logprobs", 0, limits.top_logprobs, out.logprobs);
  fields.boolean("echo", out.echo);
  if (out.echo && out.logprobs >= 0) {
    fields.fail(
        "'echo' together with 'logprobs' cannot be honoured: the prompt's tokens have no "
        "log-probabilities here; leave one out.",
        "echo", "unsupported_parameter");
  }
  int64_t best_of = out.n;
  if (fields.integer("best_of", 1, limits.choices, best_of) && best_of != out.n) {
    fields.fail("'best_of' must be equal to 'n': replies are not ranked here.", "best_of",
                "unsupported_value");
  }
  read_prompts(fields, limits, out.prompts);
  const int64_t choices = static_cast<int64_t>(out.prompts.size()) * out.n;
  if (choices > limits.choices) {
    fields.fail(
        "'n' times the number of prompts must be at most " + std::to_string(limits.choices) + ".",
        "n");
  }
  return fields.finish();
}

}  // namespace chimere::protocol
