#include <algorithm>

#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {

bool ToolBox::add(std::shared_ptr<Tool> tool) {
  const std::string name = tool->definition().name;
  return tools_.emplace(name, std::move(tool)).second;
}

Tool* ToolBox::find(std::string_view name) const {
  const auto found = tools_.find(name);
  return found == tools_.end() ? nullptr : found->second.get();
}

std::vector<const Tool*> ToolBox::all() const {
  std::vector<const Tool*> out;
  for (const auto& [name, tool] : tools_) out.push_back(tool.get());
  return out;
}

std::string ToolPolicy::refusal(const ToolBox& tools, std::string_view name) const {
  const Tool* const tool = tools.find(name);
  if (tool == nullptr || std::ranges::find(allowed_, name) == allowed_.end()) {
    return "The pipeline does not allow this tool.";
  }
  if (tool->effect() == Effect::kExternal &&
      std::ranges::find(approved_, name) == approved_.end()) {
    return "This tool has effects and the pipeline does not approve of it.";
  }
  return "";
}

std::vector<text::Tool> ToolPolicy::offered(const ToolBox& tools) const {
  std::vector<text::Tool> out;
  for (const std::string& name : allowed_) {
    const Tool* const tool = tools.find(name);
    if (tool != nullptr && refusal(tools, name).empty()) out.push_back(tool->definition());
  }
  return out;
}

}  // namespace chimere::orchestrator
