#include "protocol/requests.h"
#include "protocol/sampling_fields.h"

namespace chimere::protocol {

std::optional<ApiError> parse_completion(std::string_view body, const Settings& defaults,
                                         const RequestLimits& limits, CompletionRequest& out) {
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  fields.refuse("suffix", "this server does not support fill-in-the-middle through this field");
  read_generation(fields, defaults, limits, out);
  // Clients of llama.cpp say -1 where they want no limit.
  const Json* const limit = fields.any("max_tokens");
  if (limit != nullptr && *limit == -1) {
    read_setting(fields, "max_tokens", settings::kMaxTokens, out.settings);
  } else {
    read_max_tokens(fields, "max_tokens", out);
  }
  fields.integer("logprobs", 0, limits.top_logprobs, out.logprobs);
  fields.boolean("echo", out.echo);
  if (out.echo && out.logprobs >= 0) {
    fields.fail(
        "'echo' together with 'logprobs' is not supported: prompt tokens have no "
        "log-probabilities here; omit one of them.",
        "echo", "unsupported_parameter");
  }
  int64_t best_of = out.n;
  if (fields.integer("best_of", 1, limits.choices, best_of) && best_of != out.n) {
    fields.fail("'best_of' must be equal to 'n': this server does not rank generations.", "best_of",
                "unsupported_value");
  }
  read_prompts(fields, "prompt", limits.choices, out.prompts);
  for (const Prompt& prompt : out.prompts) {
    const bool empty = std::visit([](const auto& p) { return p.empty(); }, prompt);
    if (!empty) continue;
    fields.fail("'prompt' is empty; give it at least one character or token.", "prompt",
                "empty_content");
  }
  const int64_t choices = static_cast<int64_t>(out.prompts.size()) * out.n;
  if (choices > limits.choices) {
    fields.fail(
        "'n' times the number of prompts must be at most " + std::to_string(limits.choices) + ".",
        "n");
  }
  return fields.finish();
}

}  // namespace chimere::protocol
