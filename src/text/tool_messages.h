// Conversations with tools as values for a chat template.
#ifndef CHIMERE_TEXT_TOOL_MESSAGES_H_
#define CHIMERE_TEXT_TOOL_MESSAGES_H_

#include <span>

#include "base/result.h"
#include "text/conversation.h"
#include "text/jinja/value.h"
#include "text/tool_format.h"

namespace chimere::text {

/// The definitions as transformers passes them: a list of {"type": "function", "function": {...}}.
/// `describe`: properties without a description get an empty one, which some templates read without
/// asking. Errors: kInvalidArgument (parameters that are not an object in JSON, or nested too
/// deeply).
Result<jinja::Value> tools_value(std::span<const Tool> tools, bool describe = false);

/// The messages in the form that the template of `format` takes: arguments as mappings or texts,
/// ids of the format's syntax, calls one by one or together, written out where the template knows
/// none. `tools`: for a template that does not render definitions they become part of the system
/// message. Nothing of it is trusted but the format's own markers.
Result<jinja::Value> messages_value(std::span<const ChatMessage> messages,
                                    std::span<const Tool> tools, const ToolFormat& format);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_MESSAGES_H_
