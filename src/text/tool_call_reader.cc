#include "text/tool_call_reader.h"

namespace chimere::text {

ToolCallReader::ToolCallReader(std::span<const Tool> tools) {
  for (const Tool& tool : tools) names_.insert(tool.name);
}

void ToolCallReader::add(ToolEvent::Kind kind, std::string_view text) {
  if (text.empty()) return;
  const bool in_call = kind == ToolEvent::Kind::kArguments;
  if (!events_.empty() && events_.back().kind == kind) {
    events_.back().text += text;
  } else {
    events_.push_back({kind, in_call ? calls_ - 1 : -1, std::string(text), ""});
  }
}

void ToolCallReader::begin(const std::string& name, const std::string& id) {
  events_.push_back({ToolEvent::Kind::kBegin, calls_++, name, id});
}

void ToolCallReader::end() { events_.push_back({ToolEvent::Kind::kEnd, calls_ - 1, "", ""}); }

}  // namespace chimere::text
