#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/messages.h"
#include "protocol/prompts.h"
#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Tokenize = FieldsOf<TokenizeRequest>;
using Detokenize = FieldsOf<DetokenizeRequest>;

/// A request has one of two forms: a text or a conversation. Refuses a field of the other form.
void refuse_form(Fields& fields, std::string_view name, std::string_view form) {
  if (fields.any(name) == nullptr) return;
  fields.fail(
      "'" + std::string(name) + "' is not for a request with '" + std::string(form) + "'; omit it.",
      name, "conflicting_fields");
}

void read_tokenize_content(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                           TokenizeRequest& out) {
  if (!out.messages.empty()) return refuse_form(fields, info.name, "messages");
  std::string content;
  if (fields.text(info.name, content)) {
    out.content = std::move(content);
  } else {
    fields.fail("Send a text as 'content' or a conversation as 'messages'.", info.name,
                "missing_field");
  }
}

template <bool TokenizeRequest::*kMember>
void read_of_content(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                     TokenizeRequest& out) {
  if (!out.messages.empty()) return refuse_form(fields, info.name, "messages");
  fields.boolean(info.name, out.*kMember);
}

void read_tokenize_kwargs(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
                          TokenizeRequest& out) {
  if (out.messages.empty()) return refuse_form(fields, info.name, "content");
  read_template_kwargs(fields, info.name, out.template_kwargs);
}

constexpr FieldInfo with_messages(FieldInfo info) {
  info.with = R"("content": null, "messages": [{"role": "user", "content": "hi"}])";
  return info;
}

constexpr auto kTokenizeRows = std::to_array<Tokenize::Row>({
    Tokenize::text<&TokenizeRequest::model>({.name = "model",
                                             .help = "The name of the served model",
                                             .default_value = "the served model"}),
    messages_field<TokenizeRequest>(
        {.help = "A conversation, in place of `content`", .with = R"("content": null)"}),
    Tokenize::other({.name = "content",
                     .help = "The text; required without `messages`",
                     .required = true,
                     .type_text = "text",
                     .valid = R"(["a", ""])",
                     .invalid = "[1, []]"},
                    &read_tokenize_content),
    Tokenize::other({.name = "add_special",
                     .help = "BOS before `content`, if the model uses one",
                     .default_value = "false",
                     .type_text = "true or false",
                     .valid = "[true, false]",
                     .invalid = R"([1, "x"])"},
                    &read_of_content<&TokenizeRequest::add_special>),
    Tokenize::other({.name = "parse_special",
                     .help = "Names of control tokens in `content` become those tokens",
                     .default_value = "true",
                     .type_text = "true or false",
                     .valid = "[true, false]",
                     .invalid = R"([1, "x"])"},
                    &read_of_content<&TokenizeRequest::parse_special>),
    Tokenize::other(with_messages(template_kwargs_field<TokenizeRequest>().info),
                    &read_tokenize_kwargs),
    Tokenize::boolean<&TokenizeRequest::with_pieces>(
        {.name = "with_pieces",
         .help = "The response has the texts of the tokens",
         .default_value = "false"}),
});

void read_ids(Fields& fields, const FieldInfo& info, const RequestLimits& /*limits*/,
              DetokenizeRequest& out) {
  const Json* tokens = fields.any(info.name);
  if (tokens == nullptr) return fields.missing(info.name);
  if (!tokens->is_array()) {
    return fields.fail("'tokens' must be a list of token ids.", info.name, "invalid_type");
  }
  read_tokens(fields, *tokens, info.name, out.tokens);
}

constexpr auto kDetokenizeRows = std::to_array<Detokenize::Row>({
    Detokenize::text<&DetokenizeRequest::model>({.name = "model",
                                                 .help = "The name of the served model",
                                                 .default_value = "the served model"}),
    Detokenize::other({.name = "tokens",
                       .help = "The token ids",
                       .required = true,
                       .type_text = "list of token ids",
                       .valid = "[[], [1, 2]]",
                       .invalid = R"([[-1], 3, ["a"], [1.5], {}])"},
                      &read_ids),
});

}  // namespace

constexpr ObjectType<TokenizeRequest> kTokenizeType{kTokenizeRows};
constexpr ObjectType<DetokenizeRequest> kDetokenizeType{kDetokenizeRows};

std::optional<ApiError> parse_tokenize(std::string_view body, const RequestLimits& limits,
                                       TokenizeRequest& out) {
  out = {};
  return parse_body(kTokenizeType, body, limits, out);
}

std::optional<ApiError> parse_detokenize(std::string_view body, DetokenizeRequest& out) {
  out = {};
  return parse_body(kDetokenizeType, body, {}, out);
}

}  // namespace chimere::protocol
