// Finds the calls of tools in a generation while it is streamed.
#ifndef CHIMERE_TEXT_TOOL_CALL_PARSER_H_
#define CHIMERE_TEXT_TOOL_CALL_PARSER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_event.h"
#include "text/tool_format.h"

namespace chimere::text {

class ToolCallReader;

/// Reads the text of a generation, without its reasoning unless the format is kHarmony, and with
/// the text of the format's markers. The events, with neighbours of the same kind joined, do not
/// depend on how the text is split. Text that only looks like the beginning of a call is content as
/// soon as that is decided; so is a call of an unknown tool and one that breaks the format before
/// its arguments. One that breaks it later ends there, and the rest is content. White space around
/// calls is dropped.
class ToolCallParser {
 public:
  ToolCallParser(const ToolFormat& format, std::span<const Tool> tools);
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;
  ToolCallParser& operator=(ToolCallParser&&) noexcept;

  /// Adds text; returns what is certain.
  std::vector<ToolEvent> push(std::string_view text);
  /// How a text ends.
  enum class End {
    kWhole,
    kCutOff,  ///< by a limit: more would have followed
  };
  /// The text has ended. A call that the text breaks off ends, too. What has begun a call is
  /// content unless it was cut off: then it is dropped, and no bracket is added to the call's
  /// arguments.
  std::vector<ToolEvent> finish(End end = End::kWhole);
  /// Number of calls that have begun.
  int32_t calls() const;

 private:
  std::unique_ptr<ToolCallReader> reader_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_CALL_PARSER_H_
