// What a conversation consists of.
#ifndef CHIMERE_TEXT_CONVERSATION_H_
#define CHIMERE_TEXT_CONVERSATION_H_

#include <string>
#include <vector>

namespace chimere::text {

/// A function that the model may call.
struct Tool {
  std::string name = {};         ///< letters, digits and some punctuation
  std::string description = {};  ///< may be empty
  std::string parameters = {};   ///< a JSON Schema, as JSON text of an object; empty: none
  bool strict = false;           ///< the arguments of any call are valid under the schema
};

/// A call of a tool in a message of the assistant.
struct ToolCall {
  std::string id = {};  ///< may be empty
  std::string name = {};
  std::string arguments = {};  ///< JSON text, normally an object; as the client or model wrote it
};

struct ChatMessage {
  std::string role = {};                  ///< "system", "user", "assistant", "tool", or another
  std::string content = {};               ///< may be empty beside `tool_calls`
  std::string name = {};                  ///< may be empty
  std::string reasoning_content = {};     ///< may be empty
  std::vector<ToolCall> tool_calls = {};  ///< of the assistant
  std::string tool_call_id = {};          ///< of a result; may be empty
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_CONVERSATION_H_
