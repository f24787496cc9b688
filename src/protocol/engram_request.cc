#include <array>

#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Text = FieldsOf<EngramRequest::Text>;
using Engram = FieldsOf<EngramRequest>;

constexpr auto kTextRows = std::to_array<Text::Row>({
    Text::text<&EngramRequest::Text::text>({.name = "text", .help = "The text", .required = true}),
    Text::number<&EngramRequest::Text::score>(
        {.name = "score",
         .help = "The client's judgement of the text, which is its weight; below 0.5 it is refused",
         .required = true,
         .max = 1}),
});
constexpr ObjectType<EngramRequest::Text> kTextType{kTextRows};

constexpr auto kEngramRows = std::to_array<Engram::Row>({
    Engram::text<&EngramRequest::model>({.name = "model",
                                         .help = "The name of the served model",
                                         .default_value = "the served model"}),
    Engram::list<&EngramRequest::texts, kTextType>({.name = "texts",
                                                    .help = "The texts to add, at most 256",
                                                    .required = true,
                                                    .min = 1,
                                                    .limit = &RequestLimits::engram_texts,
                                                    .valid = R"([[{"text": "a", "score": 1}]])",
                                                    .invalid = R"([[], ["a"], {}, "a"])"}),
    Engram::text<&EngramRequest::source>(
        {.name = "source", .help = "A label of their origin, at most 200 bytes", .max_bytes = 200}),
});

using Lookup = FieldsOf<EngramLookupRequest>;

constexpr auto kLookupRows = std::to_array<Lookup::Row>({
    Lookup::text<&EngramLookupRequest::model>({.name = "model",
                                               .help = "The name of the served model",
                                               .default_value = "the served model"}),
    Lookup::text<&EngramLookupRequest::text>({.name = "text",
                                              .help = "The text, at most 64 KiB",
                                              .required = true,
                                              .max_bytes = 1 << 16}),
    Lookup::integer<&EngramLookupRequest::least>(
        {.name = "min_context",
         .help = "Of a search: tokens that must stand before a token for it to be a match",
         .min = 1,
         .max = 16,
         .default_value = "2"}),
    Lookup::integer<&EngramLookupRequest::most>({.name = "n",
                                                 .help = "Of a prediction: most tokens",
                                                 .min = 1,
                                                 .max = 64,
                                                 .default_value = "10"}),
});

}  // namespace

constexpr ObjectType<EngramLookupRequest> kEngramLookupType{kLookupRows};
constexpr ObjectType<EngramRequest> kEngramType{kEngramRows};

std::optional<ApiError> parse_engram(std::string_view body, const RequestLimits& limits,
                                     EngramRequest& out) {
  out = {};
  return parse_body(kEngramType, body, own_api(limits), out);
}

std::optional<ApiError> parse_engram_lookup(std::string_view body, const RequestLimits& limits,
                                            EngramLookupRequest& out) {
  out = {};
  return parse_body(kEngramLookupType, body, own_api(limits), out);
}

}  // namespace chimere::protocol
