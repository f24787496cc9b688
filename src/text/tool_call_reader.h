// What the readers of the formats of calls share. Internal to the module.
#ifndef CHIMERE_TEXT_TOOL_CALL_READER_H_
#define CHIMERE_TEXT_TOOL_CALL_READER_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_event.h"
#include "text/tool_format.h"

namespace chimere::text {

/// Reads one byte after the other, so that the events do not depend on how the text is split.
class ToolCallReader {
 public:
  explicit ToolCallReader(std::span<const Tool> tools);
  virtual ~ToolCallReader() = default;
  ToolCallReader(const ToolCallReader&) = delete;
  ToolCallReader& operator=(const ToolCallReader&) = delete;

  virtual void push(char c) = 0;
  /// `cut_off`: by a limit, so that more would have followed.
  virtual void finish(bool cut_off) = 0;
  std::vector<ToolEvent> take() { return std::exchange(events_, {}); }
  int32_t calls() const { return calls_; }

 protected:
  bool known(const std::string& name) const { return names_.contains(name); }
  void content(std::string_view text) { add(ToolEvent::Kind::kContent, text); }
  void reasoning(std::string_view text) { add(ToolEvent::Kind::kReasoning, text); }
  void arguments(std::string_view json) { add(ToolEvent::Kind::kArguments, json); }
  void begin(const std::string& name, const std::string& id);
  void end();

 private:
  void add(ToolEvent::Kind kind, std::string_view text);
  std::set<std::string> names_;
  std::vector<ToolEvent> events_;
  int32_t calls_ = 0;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_CALL_READER_H_
