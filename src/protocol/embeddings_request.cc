#include "protocol/requests.h"
#include "protocol/sampling_fields.h"

namespace chimere::protocol {

std::optional<ApiError> parse_embeddings(std::string_view body, const RequestLimits& limits,
                                         EmbeddingsRequest& out) {
  constexpr int64_t kMaxDimensions = 1 << 20;
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  fields.text("model", out.model);
  fields.no_op({"user", "safety_identifier"});
  fields.integer("dimensions", 1, kMaxDimensions, out.dimensions);
  std::string format = "float";
  fields.text("encoding_format", format);
  if (format != "float" && format != "base64") {
    fields.fail("'encoding_format' must be \"float\" or \"base64\".", "encoding_format");
  }
  out.base64 = format == "base64";
  read_prompts(fields, "input", limits.embeddings, out.inputs);
  return fields.finish();
}

}  // namespace chimere::protocol
