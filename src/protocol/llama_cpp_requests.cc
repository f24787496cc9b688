// Requests of llama.cpp's /infill and /completion.
#include <array>
#include <string>
#include <utility>
#include <variant>

#include "protocol/generation_fields.h"
#include "protocol/prompts.h"
#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Row = FieldsOf<InfillRequest>;
using ExtraRow = FieldsOf<std::pair<std::string, std::string>>;
using Extra = std::pair<std::string, std::string>;

constexpr auto kExtraRows = std::to_array<ExtraRow::Row>({
    ExtraRow::text<&Extra::first>({.name = "filename", .help = "Its name"}),
    ExtraRow::text<&Extra::second>({.name = "text", .help = "Its text", .required = true}),
});
constexpr ObjectType<Extra> kExtraType{kExtraRows};

template <typename Request>
void read_predict(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  Request& out) {
  read_max_tokens(fields, info.name, out);
}

template <typename Request>
constexpr Field<Request> predict_field() {
  return FieldsOf<Request>::other({.name = "n_predict",
                                   .help = "Maximum number of tokens to generate; -1: no limit",
                                   .default_value = "`--max-tokens`",
                                   .type_text = "whole number from 1, or -1",
                                   .valid = "[1, -1]",
                                   .invalid = R"([0, -5, 1.5, "x"])"},
                                  &read_predict<Request>);
}

/// Sequences have no fixed slots; -1 asks for none.
template <typename Request>
void read_slot(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
               Request& /*out*/) {
  const Json* slot = fields.any(info.name);
  if (slot == nullptr || *slot == -1 || limits.notes == nullptr) return;
  limits.notes->changed.push_back(
      {std::string(info.name), "'id_slot' has no effect: any slot serves any request."});
}

template <typename Request>
constexpr Field<Request> slot_field() {
  return {{.name = "id_slot", .use = FieldUse::kNoEffect}, &read_slot<Request>};
}

void read_infill_stops(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       InfillRequest& out) {
  read_stops(fields, info, limits, out);
}

constexpr auto kInfillRows = std::to_array<Row::Row>({
    Row::text<&InfillRequest::prefix>(
        {.name = "input_prefix", .help = "The text before the place", .required = true}),
    Row::text<&InfillRequest::suffix>(
        {.name = "input_suffix", .help = "The text behind the place", .required = true}),
    Row::list<&InfillRequest::extra, kExtraType>({.name = "input_extra",
                                                  .help = "Other files, which come first",
                                                  .max = 1024,
                                                  .valid = R"([[], [{"text": "a"}]])",
                                                  .invalid = R"([1, {}, [{}], ["a"]])"}),
    Row::text<&InfillRequest::prompt>(
        {.name = "prompt", .help = "The beginning of what is filled in"}),
    predict_field<InfillRequest>(),
    Row::text<&InfillRequest::model>({.name = "model",
                                      .help = "The name of the served model",
                                      .default_value = "the served model"}),
    Row::other({.name = "stop",
                .help = "Texts that end the generation, at most 16 of 1 KiB each",
                .type_text = "text or list of texts",
                .valid = R"(["a", ["a", "b"], []])",
                .invalid = R"([[1], 1, {}])"},
               &read_infill_stops),
    Row::boolean<&InfillRequest::stream>({.name = "stream",
                                          .help = "The generation is sent as server-sent events",
                                          .default_value = "false"}),
    Row::include<kSamplingType>(),
    Row::include<kCacheScopeType>(),
    slot_field<InfillRequest>(),
    Row::no_effect("t_max_predict_ms"),
    Row::no_effect("t_max_prompt_ms"),
});

// Completions

using CompletionRow = FieldsOf<CompletionRequest>;

void read_prompt(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 CompletionRequest& out) {
  read_prompts(fields, info.name, 1, out.prompts);
}

void read_probabilities(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                        CompletionRequest& out) {
  int64_t most = 0;
  if (fields.integer(info.name, 0, info.most(limits), most) && most > 0) out.logprobs = most;
}

void check_completion(Fields& fields, const RequestLimits& /*limits*/,
                      const CompletionRequest& out) {
  const bool empty = !out.prompts.empty() &&
                     std::visit([](const auto& p) { return p.empty(); }, out.prompts.front());
  if (!empty) return;
  fields.fail("'prompt' is empty; give it at least one character or token.", "prompt",
              "empty_content");
}

constexpr auto kCompletionRows = std::to_array<CompletionRow::Row>({
    CompletionRow::other({.name = "prompt",
                          .help = "The text to continue",
                          .required = true,
                          .type_text = "text or list of token ids",
                          .valid = R"(["x", [1, 2]])",
                          .invalid = R"([[], {}, 1, ["x", "y"], [[1, -2]]])"},
                         &read_prompt),
    predict_field<CompletionRequest>(),
    CompletionRow::other({.name = "n_probs",
                          .help = "Log-probabilities of so many most likely tokens and of the "
                                  "chosen one",
                          .limit = &RequestLimits::top_logprobs,
                          .default_value = "0",
                          .type_text = "whole number",
                          .valid = "[0, 20]",
                          .invalid = R"([-1, 21, 1.5, "x"])"},
                         &read_probabilities),
    CompletionRow::include<kOneChoiceType>(),
    slot_field<CompletionRequest>(),
    CompletionRow::no_effect("n_keep"),
    CompletionRow::no_effect("n_discard"),
    CompletionRow::no_effect("t_max_predict_ms"),
    CompletionRow::no_effect("t_max_prompt_ms"),
});

}  // namespace

constexpr ObjectType<InfillRequest> kInfillType{kInfillRows};
constexpr ObjectType<CompletionRequest> kLlamaCompletionType{kCompletionRows, &check_completion};

std::optional<ApiError> parse_llama_completion(std::string_view body, const Settings& defaults,
                                               const RequestLimits& limits,
                                               CompletionRequest& out) {
  out = {};
  out.settings = defaults;
  return parse_body(kLlamaCompletionType, body, with_notes(limits, out), out);
}

std::optional<ApiError> parse_infill(std::string_view body, const Settings& defaults,
                                     const RequestLimits& limits, InfillRequest& out) {
  out = {};
  out.settings = defaults;
  return parse_body(kInfillType, body, with_notes(limits, out), out);
}

}  // namespace chimere::protocol
