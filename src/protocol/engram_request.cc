#include <cmath>
#include <string>

#include "protocol/fields.h"
#include "protocol/requests.h"

namespace chimere::protocol {
namespace {

std::optional<ApiError> read_text(const Json& value, const std::string& path,
                                  EngramRequest::Text& out) {
  if (!value.is_object()) {
    return bad_field("'" + path + "' must be an object with 'text' and 'score'.", path,
                     "invalid_type");
  }
  Fields fields(value, path);
  if (!fields.text("text", out.text)) {
    fields.fail("'" + fields.path_of("text") + "' is missing.", "text", "missing_field");
  }
  const Json* score = fields.any("score");
  if (score == nullptr || !score->is_number()) {
    fields.fail("'" + fields.path_of("score") +
                    "' must be a number from 0 to 1: texts without a "
                    "score are not accepted.",
                "score", score == nullptr ? "missing_field" : "invalid_type");
  } else {
    out.score = score->get<double>();
    if (out.score < 0 || out.score > 1) {
      fields.fail("'" + fields.path_of("score") + "' must be from 0 to 1.", "score");
    }
  }
  return fields.finish();
}

}  // namespace

std::optional<ApiError> parse_engram(std::string_view body, const RequestLimits& limits,
                                     EngramRequest& out) {
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  fields.text("model", out.model);
  fields.text("source", out.source);
  constexpr size_t kLongestSource = 200;
  if (out.source.size() > kLongestSource) {
    fields.fail("'source' may have at most 200 bytes.", "source");
  }
  const Json* texts = fields.any("texts");
  if (texts == nullptr || !texts->is_array() || texts->empty() ||
      static_cast<int64_t>(texts->size()) > limits.engram_texts) {
    fields.fail("'texts' must be a list of 1 to " + std::to_string(limits.engram_texts) +
                    " objects with 'text' and 'score'.",
                "texts", texts == nullptr ? "missing_field" : "invalid_value");
    return fields.finish();
  }
  for (size_t i = 0; i < texts->size(); ++i) {
    const auto error =
        read_text((*texts)[i], "texts[" + std::to_string(i) + "]", out.texts.emplace_back());
    if (error) {
      fields.fail(*error);
      break;
    }
  }
  return fields.finish();
}

}  // namespace chimere::protocol
