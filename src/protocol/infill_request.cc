// Requests of llama.cpp's /infill.
#include <array>
#include <string>
#include <utility>

#include "protocol/generation_fields.h"
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

void read_predict(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                  InfillRequest& out) {
  const Json* limit = fields.any(info.name);
  if (limit != nullptr && *limit == -1) return;
  read_max_tokens(fields, info.name, out);
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
    Row::other({.name = "n_predict",
                .help = "Maximum number of tokens to generate; -1: no limit",
                .default_value = "`--max-tokens`",
                .type_text = "whole number from 1, or -1",
                .valid = "[1, -1]",
                .invalid = R"([0, -5, 1.5, "x"])"},
               &read_predict),
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
    Row::no_effect("id_slot"),
    Row::no_effect("t_max_predict_ms"),
    Row::no_effect("t_max_prompt_ms"),
});

}  // namespace

constexpr ObjectType<InfillRequest> kInfillType{kInfillRows};

std::optional<ApiError> parse_infill(std::string_view body, const Settings& defaults,
                                     const RequestLimits& limits, InfillRequest& out) {
  out = {};
  out.settings = defaults;
  return parse_body(kInfillType, body, with_notes(limits, out), out);
}

}  // namespace chimere::protocol
