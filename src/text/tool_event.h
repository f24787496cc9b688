// What a generation with calls of tools consists of.
#ifndef CHIMERE_TEXT_TOOL_EVENT_H_
#define CHIMERE_TEXT_TOOL_EVENT_H_

#include <cstdint>
#include <string>

namespace chimere::text {

struct ToolEvent {
  enum class Kind {
    kContent,
    kReasoning,  ///< of kHarmony alone: others have it taken out before
    kBegin,      ///< a call; `text` is the name of its tool
    kArguments,  ///< more of the JSON text of the call's arguments
    kEnd,        ///< of the call
  };
  Kind kind = Kind::kContent;
  int32_t call = -1;  ///< index among the generation's calls
  std::string text;
  std::string id;  ///< of kBegin: the id that the model wrote; normally empty

  friend bool operator==(const ToolEvent& a, const ToolEvent& b) = default;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_EVENT_H_
