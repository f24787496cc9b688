// What the readers of the formats of calls share. Internal to the module.
#ifndef CHIMERE_TEXT_TOOL_CALL_READER_H_
#define CHIMERE_TEXT_TOOL_CALL_READER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_call_parser.h"

namespace chimere::text {

class ToolCallParser::Reader {
 public:
  explicit Reader(std::span<const ToolDefinition> tools);
  virtual ~Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  virtual void push(char c) = 0;
  virtual void finish() = 0;
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

/// Of ToolFormat::Style::kHarmony.
std::unique_ptr<ToolCallParser::Reader> harmony_reader(std::span<const ToolDefinition> tools);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_TOOL_CALL_READER_H_
