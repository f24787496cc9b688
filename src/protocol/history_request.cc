#include <array>
#include <utility>

#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

using Message = FieldsOf<StoredMessage>;
using Change = FieldsOf<ConversationChange>;
using Append = FieldsOf<AppendRequest>;
using Store = FieldsOf<StoreMessagesRequest>;

/// A text whose absence is told from an empty one.
template <auto kMember>
constexpr Change::Row optional_text(FieldInfo info) {
  info.type = FieldType::kText;
  return {info, [](Fields& f, const FieldInfo& i, const RequestLimits&, ConversationChange& out) {
            std::string value;
            if (!f.text(i.name, value)) return;
            check_text(f, i, value);
            out.*kMember = std::move(value);
          }};
}

/// An object of the client's own fields, kept as text.
template <typename T>
void read_data(Fields& f, const FieldInfo& info, const RequestLimits&, T& out) {
  const Json* const value = f.any(info.name);
  if (value == nullptr) return;
  if (!value->is_object()) return f.fail("'data' must be an object.", info.name, "invalid_type");
  out.data = to_text(*value);
}

template <auto kMember>
constexpr Message::Row id_row(FieldInfo info) {
  info.valid = R"(["m-1"])";
  info.invalid = R"(["a/b", 1])";
  return Message::other(info, [](Fields& f, const FieldInfo& i, const RequestLimits&,
                                 StoredMessage& out) {
    if (!f.text(i.name, out.*kMember)) {
      if (i.required) f.missing(i.name);
    } else if (!is_history_id(out.*kMember)) {
      f.fail("'" + f.path_of(i.name) + "' must have 1 to 64 letters, digits, '-' and '_'.", i.name);
    }
  });
}

constexpr FieldInfo kDataInfo{.name = "data",
                              .help = "Further fields of the client's own, kept as they are",
                              .type_text = "object",
                              .valid = R"([{}, {"a": 1}])",
                              .invalid = R"([1, "a"])"};

constexpr auto kMessageRows = std::to_array<Message::Row>({
    id_row<&StoredMessage::id>(
        {.name = "id", .help = "Chosen by the client", .required = true, .type_text = "id"}),
    id_row<&StoredMessage::parent>(
        {.name = "parent",
         .help = "The message that it follows; absent: it is a first message",
         .type_text = "id"}),
    Message::text<&StoredMessage::role>({.name = "role",
                                         .help = "Who wrote it",
                                         .required = true,
                                         .choices = {"user", "assistant", "system", "tool"}}),
    Message::text<&StoredMessage::content>({.name = "content", .help = "Its text"}),
    Message::text<&StoredMessage::reasoning>({.name = "reasoning", .help = "Its reasoning"}),
    Message::other(kDataInfo, read_data<StoredMessage>),
    Message::integer<&StoredMessage::created>({.name = "created",
                                               .help = "Milliseconds since 1970",
                                               .max = 1e15,
                                               .default_value = "now"}),
    Message::boolean<&StoredMessage::complete>(
        {.name = "complete", .help = "false while it is being generated", .default_value = "true"}),
});
constexpr ObjectType<StoredMessage> kMessageType{kMessageRows};

constexpr auto kStoreRows = std::to_array<Store::Row>({
    Store::list<&StoreMessagesRequest::messages, kMessageType>(
        {.name = "messages",
         .help = "Messages to add; one of the same id is replaced",
         .required = true,
         .min = 1,
         .limit = &RequestLimits::messages,
         .valid = R"([[{"id": "a", "role": "user"}]])",
         .invalid = R"([[], ["a"], {}, "a"])"}),
});

constexpr auto kChangeRows = std::to_array<Change::Row>({
    optional_text<&ConversationChange::title>(
        {.name = "title", .help = "Its title", .max_bytes = 1000}),
    optional_text<&ConversationChange::folder>(
        {.name = "folder", .help = "The folder that it is in; empty: none", .max_bytes = 200}),
    optional_text<&ConversationChange::leaf>(
        {.name = "leaf", .help = "The last message of the branch that is shown", .max_bytes = 64}),
    Change::other({.name = "pinned",
                   .help = "Whether it is listed first",
                   .type_text = "true or false",
                   .valid = "[true, false]",
                   .invalid = R"([1, "a"])"},
                  [](Fields& f, const FieldInfo& i, const RequestLimits&, ConversationChange& out) {
                    bool value = false;
                    if (f.boolean(i.name, value)) out.pinned = value;
                  }),
    Change::other(kDataInfo, read_data<ConversationChange>),
});

constexpr auto kAppendRows = std::to_array<Append::Row>({
    Append::text<&AppendRequest::message>(
        {.name = "message", .help = "The id of the message", .required = true}),
    Append::integer<&AppendRequest::content_at>(
        {.name = "content_at",
         .help = "Bytes of UTF-8 of the content before this part; what is stored already is not "
                 "stored again",
         .max = 1e12,
         .default_value = "0"}),
    Append::text<&AppendRequest::content>(
        {.name = "content", .help = "The next part of the content"}),
    Append::integer<&AppendRequest::reasoning_at>(
        {.name = "reasoning_at",
         .help = "Bytes of UTF-8 of the reasoning before this part",
         .max = 1e12,
         .default_value = "0"}),
    Append::text<&AppendRequest::reasoning>(
        {.name = "reasoning", .help = "The next part of the reasoning"}),
});

}  // namespace

constexpr ObjectType<ConversationChange> kConversationType{kChangeRows};
constexpr ObjectType<StoreMessagesRequest> kStoreMessagesType{kStoreRows};
constexpr ObjectType<AppendRequest> kAppendType{kAppendRows};

bool is_history_id(std::string_view id) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return !id.empty() && id.size() <= 64 && id.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::optional<ApiError> parse_conversation(std::string_view body, const RequestLimits& limits,
                                           ConversationChange& out) {
  out = {};
  return parse_body(kConversationType, body, own_api(limits), out);
}

std::optional<ApiError> parse_messages(std::string_view body, const RequestLimits& limits,
                                       StoreMessagesRequest& out) {
  out = {};
  return parse_body(kStoreMessagesType, body, own_api(limits), out);
}

std::optional<ApiError> parse_append(std::string_view body, const RequestLimits& limits,
                                     AppendRequest& out) {
  out = {};
  return parse_body(kAppendType, body, own_api(limits), out);
}

}  // namespace chimere::protocol
