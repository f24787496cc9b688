// Calls of tools in gpt-oss's format. Internal to the module.
#ifndef CHIMERE_TEXT_TOOL_CALL_HARMONY_H_
#define CHIMERE_TEXT_TOOL_CALL_HARMONY_H_

#include <memory>
#include <span>

#include "text/tool_call_reader.h"

namespace chimere::text {

/// Of ToolFormat::Style::kHarmony.
std::unique_ptr<ToolCallReader> harmony_reader(std::span<const Tool> tools);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_CALL_HARMONY_H_
