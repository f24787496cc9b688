// Requests of Cohere's /v2/embed.
#include <array>
#include <string>

#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Row = FieldsOf<EmbeddingsRequest>;

void read_cohere_texts(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                       EmbeddingsRequest& out) {
  const Json* const list = fields.list(info.name, 1, info.most(limits));
  if (list == nullptr) return fields.missing(info.name);
  for (const Json& text : *list) {
    if (!text.is_string()) {
      return fields.fail("'texts' must be a list of texts.", info.name, "invalid_type");
    }
    out.inputs.emplace_back(text.get<std::string>());
  }
}

void read_cohere_types(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                       EmbeddingsRequest& out) {
  const Json* const list = fields.list(info.name, 1, 8);
  if (list == nullptr) return;
  out.floats = false;
  for (const Json& type : *list) {
    if (type == "float") {
      out.floats = true;
    } else if (type == "base64") {
      out.base64 = true;
    } else {
      return fields.fail("'embedding_types' can have \"float\" and \"base64\" only.", info.name,
                         "unsupported_value");
    }
  }
}

void read_cohere_truncate(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                          EmbeddingsRequest& /*out*/) {
  std::string truncate;
  if (!fields.text(info.name, truncate) || truncate == "NONE") return;
  fields.fail("'truncate' can only be \"NONE\": a text that is too long is an error.", info.name,
              "unsupported_value");
}

constexpr auto kCohereEmbedRows = std::to_array<Row::Row>({
    Row::text<&EmbeddingsRequest::model>({.name = "model",
                                          .help = "The name of the embedding model",
                                          .default_value = "the served embedding model"}),
    Row::other({.name = "texts",
                .help = "At most 2,048 texts",
                .required = true,
                .limit = &RequestLimits::embeddings,
                .type_text = "list of texts",
                .valid = R"([["a"], ["a", "b"]])",
                .invalid = R"([[], "a", [1]])"},
               &read_cohere_texts),
    Row::other({.name = "embedding_types",
                .help = "`base64`: of the little-endian f32 bytes",
                .default_value = "`[\"float\"]`",
                .type_text = "list of `\"float\"` and `\"base64\"`",
                .valid = R"([["float"], ["float", "base64"]])",
                .invalid = R"([[], ["int8"], "float", 1])"},
               &read_cohere_types),
    Row::integer<&EmbeddingsRequest::dimensions>(
        {.name = "output_dimension",
         .help = "Vectors are truncated to so many dimensions and scaled to length 1; at most the "
                 "model's",
         .min = 1,
         .max = 1 << 20,
         .default_value = "the model's"}),
    Row::other({.name = "truncate",
                .help = "A text that is too long is an error",
                .default_value = "`NONE`",
                .type_text = "`\"NONE\"`",
                .valid = R"(["NONE"])",
                .invalid = R"(["END", "START", 1])"},
               &read_cohere_truncate),
    Row::no_effect("input_type"),
    Row::no_effect("priority"),
    Row::refused("images", "the models accept text only"),
    Row::refused("inputs", "the models accept text only; use `texts`"),
    Row::refused("max_tokens", "a text that is too long is an error"),
});

}  // namespace

constexpr ObjectType<EmbeddingsRequest> kCohereEmbedType{kCohereEmbedRows};

std::optional<ApiError> parse_cohere_embed(std::string_view body, const RequestLimits& limits,
                                           EmbeddingsRequest& out) {
  out = {};
  return parse_body(kCohereEmbedType, body, with_notes(limits, out), out);
}

}  // namespace chimere::protocol
