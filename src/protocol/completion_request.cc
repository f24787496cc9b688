#include <array>
#include <string>
#include <variant>

#include "protocol/generation_fields.h"
#include "protocol/prompts.h"
#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Completion = FieldsOf<CompletionRequest>;

void read_prompt(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 CompletionRequest& out) {
  read_prompts(fields, info.name, info.most(limits), out.prompts);
}

void read_completion_limit(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                           CompletionRequest& out) {
  read_max_tokens(fields, info.name, out, 0);
}

void read_best_of(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                  CompletionRequest& out) {
  int64_t best_of = out.n;
  if (!fields.integer(info.name, 1, limits.choices, best_of) || best_of == out.n) return;
  fields.fail("'best_of' must be equal to 'n': this server does not rank generations.", info.name,
              "unsupported_value");
}

void check_completion(Fields& fields, const RequestLimits& limits, const CompletionRequest& out) {
  if (!out.echo && !out.max_tokens.first.empty() && out.max_tokens.second == 0) {
    fields.fail("With 'max_tokens' 0 the response is the prompt alone, which needs \"echo\": true.",
                "max_tokens");
  }
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
}

constexpr auto kCompletionRows = std::to_array<Completion::Row>({
    Completion::other({.name = "prompt",
                       .help = "The texts to continue; none of them empty",
                       .required = true,
                       .limit = &RequestLimits::choices,
                       .type_text = kPromptsType,
                       .valid = kValidPrompts,
                       .invalid = kInvalidPrompts},
                      &read_prompt),
    Completion::include<kGenerationType>(),
    Completion::other(
        {.name = "max_tokens",
         .help = "Maximum number of tokens to generate; -1: no limit; 0: none, with `echo` only; "
                 "what exceeds the context is reduced, with a [warning](serving.md#warnings)",
         .default_value = "`--max-tokens`",
         .type_text = "whole number from -1",
         .valid = "[1, -1, 2147483647]",
         .invalid = R"([-5, 1.5, "x"])"},
        &read_completion_limit),
    Completion::other({.name = "n_predict",
                       .help = "llama.cpp's name of `max_tokens`",
                       .type_text = "whole number from 1, or -1",
                       .valid = "[1, -1]",
                       .invalid = R"([-5, 1.5, "x"])"},
                      &read_completion_limit),
    Completion::other({.name = "max_completion_tokens",
                       .help = "The same as `max_tokens`",
                       .type_text = "whole number from 1, or -1",
                       .valid = "[1, -1]",
                       .invalid = R"([-5, 1.5, "x"])"},
                      &read_completion_limit),
    Completion::integer<&CompletionRequest::logprobs>(
        {.name = "logprobs",
         .help = "Log-probabilities of so many most likely tokens and of the chosen one, of the "
                 "model's distribution as in chat completions; with `echo` also those of the "
                 "[prompt's tokens](serving.md#echo-with-log-probabilities)",
         .limit = &RequestLimits::top_logprobs}),
    Completion::boolean<&CompletionRequest::echo>(
        {.name = "echo", .help = "The text begins with the prompt", .default_value = "false"}),
    Completion::other({.name = "best_of",
                       .help = "Must be equal to `n`: the server does not rank generations",
                       .type_text = "whole number from 1 to 16",
                       .valid = "[1]",
                       .invalid = R"([0, 2, 17, 1.5, "x"])"},
                      &read_best_of),
    Completion::refused("suffix",
                        "this server does not support fill-in-the-middle through this field"),
});

}  // namespace

constexpr ObjectType<CompletionRequest> kCompletionType{kCompletionRows, &check_completion};

std::optional<ApiError> parse_completion(std::string_view body, const Settings& defaults,
                                         const RequestLimits& limits, CompletionRequest& out) {
  out = {};
  out.settings = defaults;
  return parse_body(kCompletionType, body, with_notes(limits, out), out);
}

}  // namespace chimere::protocol
