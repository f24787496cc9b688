#include <array>
#include <string>
#include <string_view>

#include "text/tool_format.h"

namespace chimere::text {
namespace {

using Style = ToolFormat::Style;
using Ids = ToolFormat::Ids;

ToolFormat hermes() {
  ToolFormat f;
  f.call_open = "<tool_call>\n{\"name\": \"";
  f.after_name = "\", \"arguments\": ";
  f.call_close = "}\n</tool_call>";
  f.separator = "\n";
  return f;
}

ToolFormat qwen_coder() {
  ToolFormat f;
  f.style = Style::kTagged;
  f.call_open = "<tool_call>\n<function=";
  f.after_name = ">";
  f.parameter_open = "\n<parameter=";
  f.after_key = ">\n";
  f.parameter_close = "\n</parameter>";
  f.call_close = "\n</function>\n</tool_call>";
  f.separator = "\n";
  return f;
}

ToolFormat glm() {
  ToolFormat f;
  f.style = Style::kTagged;
  f.call_open = "<tool_call>";
  f.parameter_open = "\n<arg_key>";
  f.after_key = "</arg_key>\n<arg_value>";
  f.parameter_close = "</arg_value>";
  f.call_close = "\n</tool_call>";
  f.separator = "\n";
  return f;
}

ToolFormat llama() {
  ToolFormat f;
  f.call_open = "{\"name\": \"";
  f.after_name = "\", \"parameters\": ";
  f.arguments_key = "parameters";
  f.call_close = "}";
  f.parallel = false;
  return f;
}

ToolFormat list_behind(std::string_view marker) {
  ToolFormat f;
  f.section_open = std::string(marker) + "[";
  f.call_open = "{\"name\": \"";
  f.after_name = "\", \"arguments\": ";
  f.call_close = "}";
  f.separator = ", ";
  f.section_close = "]";
  return f;
}

ToolFormat mistral_list() {
  ToolFormat f = list_behind("[TOOL_CALLS]");
  f.before_id = ", \"id\": \"";
  f.call_close = "\"}";
  f.ids = Ids::kNineLetters;
  return f;
}

ToolFormat mistral_named() {
  ToolFormat f;
  f.style = Style::kNamed;
  f.call_open = "[TOOL_CALLS]";
  f.after_name = "[ARGS]";
  return f;
}

ToolFormat granite() { return list_behind("<|tool_call|>"); }

ToolFormat deepseek_v3() {
  ToolFormat f;
  f.style = Style::kNamed;
  f.section_open = "<｜tool▁calls▁begin｜>";
  f.call_open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>";
  f.after_name = "\n```json\n";
  f.call_close = "\n```<｜tool▁call▁end｜>";
  f.separator = "\n";
  f.section_close = "<｜tool▁calls▁end｜>";
  return f;
}

ToolFormat kimi() {
  ToolFormat f;
  f.style = Style::kNamed;
  f.section_open = "<|tool_calls_section_begin|>";
  f.call_open = "<|tool_call_begin|>functions.";
  f.after_name = "<|tool_call_argument_begin|>";
  f.call_close = "<|tool_call_end|>";
  f.section_close = "<|tool_calls_section_end|>";
  f.ids = Ids::kNumbered;
  return f;
}

ToolFormat lfm2() {
  ToolFormat f;
  f.style = Style::kPython;
  f.section_open = "<|tool_call_start|>[";
  f.after_name = "(";
  f.call_close = ")";
  f.separator = ", ";
  f.section_close = "]<|tool_call_end|>";
  return f;
}

ToolFormat harmony() {
  ToolFormat f;
  f.style = Style::kHarmony;
  f.parallel = false;
  return f;
}

/// A word of the source and the format that it stands for; the first one that occurs counts.
struct Written {
  std::string_view word;
  ToolFormat (*format)();
};
constexpr auto kWritten = std::to_array<Written>({
    {"<|channel|>", &harmony},
    {"<|tool_calls_section_begin|>", &kimi},
    {"<|tool_call_start|>", &lfm2},
    {"<|tool_list_start|>", &lfm2},
    {"[ARGS]", &mistral_named},
    {"[TOOL_CALLS]", &mistral_list},
    {"<｜tool▁calls▁begin｜>", &deepseek_v3},
    {"<|tool_call|>", &granite},
    {"<|python_tag|>", &llama},
    {"<|start_header_id|>", &llama},
    {"<arg_key>", &glm},
    {"<function=", &qwen_coder},
    {"<tool_call>", &hermes},
    {"<|start_of_role|>", &granite},
});

}  // namespace

ToolFormat written_tool_format(std::string_view source, const Tokenizer* vocabulary) {
  for (const Written& w : kWritten) {
    if (source.find(w.word) != std::string_view::npos) return w.format();
  }
  for (const Written& w : kWritten) {
    if (vocabulary != nullptr && vocabulary->find(w.word) >= 0) return w.format();
  }
  return hermes();
}

}  // namespace chimere::text
