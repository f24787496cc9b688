#include "protocol/requests.h"
#include "protocol/sampling_fields.h"

namespace chimere::protocol {

std::optional<ApiError> parse_tokenize(std::string_view body, const RequestLimits& limits,
                                       TokenizeRequest& out) {
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  fields.text("model", out.model);
  fields.boolean("with_pieces", out.with_pieces);
  if (object.contains("messages")) {
    read_messages(fields, limits, out.messages);
    read_template_kwargs(fields, out.template_kwargs);
    return fields.finish();
  }
  std::string content;
  if (fields.text("content", content)) {
    out.content = std::move(content);
  } else {
    fields.fail("Send a text as 'content' or a conversation as 'messages'.", "content",
                "missing_field");
  }
  fields.boolean("add_special", out.add_special);
  fields.boolean("parse_special", out.parse_special);
  return fields.finish();
}

std::optional<ApiError> parse_detokenize(std::string_view body, DetokenizeRequest& out) {
  Json object;
  if (auto error = parse_object(body, {}, object)) return error;
  Fields fields(object, "");
  fields.text("model", out.model);
  const Json* tokens = fields.any("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    fields.fail("'tokens' must be a list of token ids.", "tokens",
                tokens == nullptr ? "missing_field" : "invalid_type");
  } else {
    read_tokens(fields, *tokens, "tokens", out.tokens);
  }
  return fields.finish();
}

}  // namespace chimere::protocol
