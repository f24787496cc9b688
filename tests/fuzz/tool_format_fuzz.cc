// Finds the format of tool calls of arbitrary bytes as a chat template. What it finds is a format
// that the parser reads and that writes the calls of a conversation.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "text/tool_call_parser.h"
#include "text/tool_format.h"
#include "text/tool_messages.h"

namespace text = chimere::text;

namespace {

// Long templates go over several literals. NOLINTNEXTLINE(bugprone-suspicious-missing-comma)
constexpr std::string_view kSeeds[] = {
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] "
    "%}{{ '\\n<tool_call>\\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}"
    "{{ c.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] "
    "%}{{ '\\n<tool_call>\\n<function=' + c.function.name + '>\\n' }}{% for k, v in "
    "c.function.arguments | items %}{{ '<parameter=' + k + '>\\n' + v + '\\n</parameter>\\n' }}"
    "{% endfor %}{{ '</function>\\n</tool_call>' }}{% endfor %}<|end|>{% endfor %}",
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% if m.tool_calls %}[TOOL_CALLS] "
    "[{% for c in m.tool_calls %}{{ (c.function | tojson)[:-1] + ', \"id\": \"' + c.id + '\"}' "
    "}}{{ ', ' if not loop.last }}{% endfor %}]{% endif %}</s>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] "
    "%}<|call|>functions.{{ c.function.name }}:{{ loop.index0 }}<|args|>"
    "{{ c.function.arguments | tojson }}<|/call|>{% endfor %}<|end|>{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% if m.tool_calls %}<|calls|>["
    "{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments | items "
    "%}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if not loop.last }}"
    "{% endfor %}]<|/calls|>{% endif %}<|end|>{% endfor %}",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = text::ChatTemplate::create(source);
  if (!parsed.ok()) return 0;
  text::ChatOptions options;
  options.limits.steps = 2'000;
  options.limits.bytes = 1 << 18;
  const text::ToolFormat format = text::ToolFormat::of(*parsed, source, options, "</think>");
  const text::Tool tool{"f", "d", R"({"type": "object"})"};
  const std::vector<text::ToolCall> calls = {{"c", "f", R"({"a": "b"})"}};
  text::ToolCallParser parser(format, {&tool, 1});
  if (format.style != text::ToolFormat::Style::kHarmony) {
    (void)parser.push(text::write_tool_calls(format, calls).bytes());
  }
  (void)parser.finish();
  const std::vector<text::ChatMessage> messages = {
      {.role = "user", .content = "q"},
      {.role = "assistant", .tool_calls = calls},
      {.role = "tool", .content = "r", .tool_call_id = "c"}};
  const auto values = text::messages_value(messages, {&tool, 1}, format);
  if (!values.ok()) std::abort();
  (void)parsed->render(*values, options);
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
