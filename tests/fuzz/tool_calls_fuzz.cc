// Reads arbitrary bytes as a generation in each format of tool calls: the events do not depend on
// how the text is split, calls are those of known tools, and text without calls is kept.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "text/tool_call_parser.h"
#include "text/tool_format.h"

namespace text = chimere::text;

namespace {

using text::ToolEvent;

/// Words of templates that stand for the written formats; the first byte of the input chooses one.
constexpr std::string_view kWords[] = {
    "<tool_call>",         "<function=",
    "<arg_key>",           "<|python_tag|>",
    "[TOOL_CALLS]",        "[ARGS]",
    "<|tool_call|>",       "<｜tool▁calls▁begin｜>",
    "<|channel|>",         "<|tool_calls_section_begin|>",
    "<|tool_list_start|>",
};

const std::array<text::Tool, 2>& tools() {
  static const std::array<text::Tool, 2> kTools = {{
      {"f", "",
       R"({"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"},
           "o": {"type": ["string", "null"]}}})"},
      {"g.h", "", ""},
  }};
  return kTools;
}

void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Events with those of the same kind and call joined.
void join(std::vector<ToolEvent> events, std::vector<ToolEvent>& out) {
  for (ToolEvent& e : events) {
    const bool text = e.kind != ToolEvent::Kind::kBegin && e.kind != ToolEvent::Kind::kEnd;
    if (text && !out.empty() && out.back().kind == e.kind) {
      out.back().text += e.text;
    } else {
      out.push_back(std::move(e));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const text::ToolFormat format = text::written_tool_format(kWords[data[0] % std::size(kWords)]);
  const size_t piece = 1 + data[1] % 7;
  const std::string_view input(reinterpret_cast<const char*>(data + 2), size - 2);
  std::vector<ToolEvent> whole;
  text::ToolCallParser parser(format, tools());
  join(parser.push(input), whole);
  join(parser.finish(), whole);
  std::vector<ToolEvent> split;
  text::ToolCallParser other(format, tools());
  for (size_t at = 0; at < input.size(); at += piece) {
    join(other.push(input.substr(at, piece)), split);
  }
  join(other.finish(), split);
  require(whole == split, "the events depend on how the text is split");
  int32_t calls = 0;
  bool open = false;
  std::string content;
  for (const ToolEvent& e : whole) {
    switch (e.kind) {
      case ToolEvent::Kind::kBegin:
        require(!open && e.call == calls++, "a call begins inside another one");
        require(e.text == "f" || e.text == "g.h", "an unknown tool is called");
        open = true;
        break;
      case ToolEvent::Kind::kArguments:
        require(open && e.call == calls - 1, "arguments outside a call");
        break;
      case ToolEvent::Kind::kEnd:
        require(open, "a call ends twice");
        open = false;
        break;
      case ToolEvent::Kind::kContent:
        content += e.text;
        break;
      case ToolEvent::Kind::kReasoning:
        break;
    }
  }
  require(!open, "a call does not end");
  const bool channels = format.style == text::ToolFormat::Style::kHarmony;
  require(calls > 0 || channels || content == input, "text without calls was lost");
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  const std::array<text::ToolCall, 2> calls = {{
      {"aB3dE6gH9", "f", R"({"s": "a\"ü\n", "n": -12, "o": null, "x": [1, {"y": true}]})"},
      {"bB3dE6gH9", "g.h", "{}"},
  }};
  for (size_t i = 0; i < std::size(kWords); ++i) {
    const text::ToolFormat format = text::written_tool_format(kWords[i]);
    std::string out = format.style == text::ToolFormat::Style::kHarmony
                          ? "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>"
                            "commentary to=functions.f <|constrain|>json<|message|>{\"s\": 1}"
                            "<|call|>"
                          : "Text. " + text::write_tool_calls(format, calls).bytes() + "\nMore.";
    if (i % 2 == 1) out.erase(0, std::min<size_t>(6, out.size()));
    std::vector<uint8_t>& seed = seeds.emplace_back();
    seed = {static_cast<uint8_t>(i), 0};
    seed.insert(seed.end(), out.begin(), out.end());
  }
  return seeds;
}
