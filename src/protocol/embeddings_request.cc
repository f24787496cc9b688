#include <array>
#include <string>

#include "protocol/prompts.h"
#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Embeddings = FieldsOf<EmbeddingsRequest>;

void read_input(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                EmbeddingsRequest& out) {
  read_prompts(fields, info.name, info.most(limits), out.inputs);
}

void read_format(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                 EmbeddingsRequest& out) {
  std::string format;
  if (!fields.text(info.name, format)) return;
  check_text(fields, info, format);
  out.base64 = format == "base64";
}

constexpr auto kEmbeddingsRows = std::to_array<Embeddings::Row>({
    Embeddings::text<&EmbeddingsRequest::model>({.name = "model",
                                                 .help = "The name of the embedding model",
                                                 .default_value = "the served embedding model"}),
    Embeddings::other({.name = "input",
                       .help = "At most 2,048 texts",
                       .required = true,
                       .limit = &RequestLimits::embeddings,
                       .type_text = kPromptsType,
                       .valid = kValidPrompts,
                       .invalid = kInvalidPrompts},
                      &read_input),
    Embeddings::integer<&EmbeddingsRequest::dimensions>(
        {.name = "dimensions",
         .help = "Vectors are truncated to so many dimensions and scaled to length 1; at most the "
                 "model's",
         .min = 1,
         .max = 1 << 20,
         .default_value = "the model's"}),
    Embeddings::other({.name = "encoding_format",
                       .help = "`base64`: of the little-endian f32 bytes",
                       .choices = {"float", "base64"},
                       .default_value = "`float`",
                       .type_text = "`float` or `base64`",
                       .valid = R"(["float", "base64"])",
                       .invalid = R"(["int8", 1])"},
                      &read_format),
    Embeddings::no_effect("user"),
    Embeddings::no_effect("safety_identifier"),
});

}  // namespace

constexpr ObjectType<EmbeddingsRequest> kEmbeddingsType{kEmbeddingsRows};

std::optional<ApiError> parse_embeddings(std::string_view body, const RequestLimits& limits,
                                         EmbeddingsRequest& out) {
  out = {};
  return parse_body(kEmbeddingsType, body, with_notes(limits, out), out);
}

}  // namespace chimere::protocol
