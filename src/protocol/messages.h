// Messages of a conversation. Internal to the module.
#ifndef CHIMERE_PROTOCOL_MESSAGES_H_
#define CHIMERE_PROTOCOL_MESSAGES_H_

#include "protocol/field_table.h"

namespace chimere::protocol {

extern const ObjectType<ChatMessage> kMessageType;

/// The rows of `messages` and `chat_template_kwargs` in a request that has these members.
template <typename T>
constexpr Field<T> messages_field(FieldInfo info) {
  info.name = "messages";
  info.min = 1;
  info.limit = &RequestLimits::messages;
  info.valid = R"([[{"role": "user", "content": "hi"}]])";
  info.invalid = R"([[], {}, "hi", 1])";
  return FieldsOf<T>::template list<&T::messages, kMessageType>(info);
}

/// Reads an object as JSON text.
void read_template_kwargs(Fields& fields, std::string_view name, std::string& out);

template <typename T>
constexpr Field<T> template_kwargs_field() {
  return {
      {.name = "chat_template_kwargs",
       .help = "Variables for the template, like `{\"enable_thinking\": false}`; not those that "
               "the server sets",
       .type_text = "object",
       .valid = R"([{}, {"enable_thinking": false}])",
       .invalid = R"([1, [], {"messages": []}, {"tools": null}])"},
      [](Fields& f, const FieldInfo& i, const RequestLimits&, T& out) {
        read_template_kwargs(f, i.name, out.template_kwargs);
      }};
}

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_MESSAGES_H_
