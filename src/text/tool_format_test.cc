#include "text/tool_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "text/tool_call_parser.h"
#include "text/tool_messages.h"

namespace chimere::text {
namespace {

using Style = ToolFormat::Style;

std::string template_source(const std::string& name) {
  std::ifstream file(std::filesystem::path(CHIMERE_TEXT_TESTDATA) / "templates" / name,
                     std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A template that writes the calls of a message so, in Jinja.
std::string with_calls(const std::string& calls) {
  return "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% if m.tool_calls %}" +
         calls +
         "{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
         "{% endif %}";
}

/// Templates of the structure of published ones.
const std::map<std::string, std::string>& probe_sources() {
  static const std::map<std::string, std::string> sources = {
      {"object",
       with_calls("{% for c in m.tool_calls %}{{ '\\n<tool_call>\\n{\"name\": \"' + "
                  "c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}"
                  "{{ '}\\n</tool_call>' }}{% endfor %}")},
      {"list",
       with_calls("{{ '<TOOLCALL>[' }}{% for c in m.tool_calls %}{{ '{\"name\": \"' + "
                  "c.function.name + '\", \"parameters\": ' + (c.function.arguments | tojson) + "
                  "'}' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']</TOOLCALL>' }}")},
      {"named",
       with_calls("{{ '<|calls|>' }}{% for c in m.tool_calls %}{{ '<|call|>' + c.function.name + "
                  "'<|sep|>' + (c.function.arguments | tojson) + '<|/call|>' }}{% endfor %}"
                  "{{ '<|/calls|>' }}")},
      {"numbered",
       with_calls("{{ '<|calls|>' }}{% for c in m.tool_calls %}{{ '<|call|>' + c.id + "
                  "'<|args|>' + (c.function.arguments | tojson) + '<|/call|>' }}{% endfor %}"
                  "{{ '<|/calls|>' }}")},
      {"ids",
       with_calls("{% for c in m.tool_calls %}{% if c.id | length != 9 %}"
                  "{{ raise_exception('nine') }}{% endif %}{{ '[CALLS]' + c.function.name + '[ID]' "
                  "+ c.id + '[ARGS]' + (c.function.arguments | tojson) }}{% endfor %}")},
      {"tagged",
       with_calls("{% for c in m.tool_calls %}{{ '\\n<tool_call>\\n<function=' + c.function.name "
                  "+ '>\\n' }}{% for k, v in c.function.arguments | items %}{{ '<parameter=' + k "
                  "+ '>\\n' }}{{ v if v is string else v | tojson }}{{ '\\n</parameter>\\n' }}"
                  "{% endfor %}{{ '</function>\\n</tool_call>' }}{% endfor %}")},
      {"keys and values",
       with_calls("{% for c in m.tool_calls %}{{ '\\n<tool_call>' + c.function.name + '\\n' }}"
                  "{% for k, v in c.function.arguments | items %}{{ '<arg_key>' + k + "
                  "'</arg_key>\\n<arg_value>' }}{{ v if v is string else v | tojson }}"
                  "{{ '</arg_value>\\n' }}{% endfor %}{{ '</tool_call>' }}{% endfor %}")},
      {"no end",
       "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] "
       "%}<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments | items %}<arg_key>"
       "{{ k }}</arg_key><arg_value>{{ v if v is string else v | tojson }}</arg_value>{% endfor %}"
       "</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif "
       "%}"},
      {"text",
       with_calls("{% for c in m.tool_calls %}{{ '<tool_call>{\"name\": \"' + c.function.name + "
                  "'\", \"arguments\": ' + c.function.arguments + '}</tool_call>' }}{% endfor %}")},
  };
  return sources;
}

ChatOptions probe_options() {
  ChatOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  return options;
}

ToolFormat format_of(const std::string& source) {
  const auto parsed = ChatTemplate::create(source);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return ToolFormat::of(*parsed, source, probe_options(), "</think>");
}

TEST(ToolFormat, FollowsFromRenderings) {
  const auto of = [](const char* name) { return format_of(probe_sources().at(name)); };
  const ToolFormat object = of("object");
  EXPECT_EQ(object.style, Style::kObject);
  EXPECT_EQ(object.call_open, "<tool_call>\n{\"name\": \"");
  EXPECT_EQ(object.after_name, "\", \"arguments\": ");
  EXPECT_EQ(object.call_close, "}\n</tool_call>");
  EXPECT_EQ(object.separator, "\n");
  EXPECT_EQ(object.trigger(), "<tool_call>");
  EXPECT_TRUE(object.rendering.content_and_calls);

  const ToolFormat list = of("list");
  EXPECT_EQ(list.style, Style::kObject);
  EXPECT_EQ(list.section_open, "<TOOLCALL>[");
  EXPECT_EQ(list.call_open, "{\"name\": \"");
  EXPECT_EQ(list.arguments_key, "parameters");
  EXPECT_EQ(list.separator, ", ");
  EXPECT_EQ(list.section_close, "]</TOOLCALL>");

  const ToolFormat named = of("named");
  EXPECT_EQ(named.style, Style::kNamed);
  EXPECT_EQ(named.section_open, "<|calls|>");
  EXPECT_EQ(named.call_open, "<|call|>");
  EXPECT_EQ(named.after_name, "<|sep|>");
  EXPECT_EQ(named.call_close, "<|/call|>");
  EXPECT_EQ(named.section_close, "<|/calls|>");

  const ToolFormat numbered = of("numbered");
  EXPECT_EQ(numbered.ids, ToolFormat::Ids::kNumbered);
  EXPECT_EQ(numbered.call_open, "<|call|>functions.");
  EXPECT_EQ(numbered.after_name, "<|args|>");

  const ToolFormat ids = of("ids");
  EXPECT_EQ(ids.ids, ToolFormat::Ids::kNineLetters);
  EXPECT_EQ(ids.call_open, "[CALLS]");
  EXPECT_EQ(ids.after_name, "[ID]");
  EXPECT_EQ(ids.after_id, "[ARGS]");

  const ToolFormat tagged = of("tagged");
  EXPECT_EQ(tagged.style, Style::kTagged);
  EXPECT_EQ(tagged.call_open, "<tool_call>\n<function=");
  EXPECT_EQ(tagged.after_name, ">");
  EXPECT_EQ(tagged.parameter_open, "\n<parameter=");
  EXPECT_EQ(tagged.after_key, ">\n");
  EXPECT_EQ(tagged.parameter_close, "\n</parameter>");
  EXPECT_EQ(tagged.call_close, "\n</function>\n</tool_call>");

  const ToolFormat pairs = of("keys and values");
  EXPECT_EQ(pairs.style, Style::kTagged);
  EXPECT_EQ(pairs.call_open, "<tool_call>");
  EXPECT_EQ(pairs.parameter_open, "\n<arg_key>");
  EXPECT_EQ(pairs.after_key, "</arg_key>\n<arg_value>");
  EXPECT_EQ(pairs.parameter_close, "</arg_value>");

  EXPECT_TRUE(of("text").rendering.string_arguments);

  const ToolFormat endless = of("no end");
  EXPECT_EQ(endless.style, Style::kTagged);
  EXPECT_EQ(endless.parameter_open, "<arg_key>");
  EXPECT_EQ(endless.parameter_close, "</arg_value>");
  EXPECT_EQ(endless.call_close, "</tool_call>");
}

TEST(ToolFormat, CallsThatNothingMarksAreNoFormat) {
  const std::string source = with_calls(
      "{% for c in m.tool_calls %}{{ c.function.name + '\n' + (c.function.arguments | "
      "tojson) }}{% endfor %}");
  EXPECT_EQ(format_of(source).call_open, written_tool_format("").call_open);
  EXPECT_TRUE(format_of(source).rendering.calls);
}

TEST(ToolFormat, PublishedStructures) {
  EXPECT_EQ(format_of(template_source("qwen3.jinja")).style, Style::kObject);
  EXPECT_EQ(format_of(template_source("qwen35.jinja")).style, Style::kTagged);
  EXPECT_EQ(format_of(template_source("harmony.jinja")).style, Style::kHarmony);
  const ToolFormat llama = format_of(template_source("llama3.jinja"));
  EXPECT_EQ(llama.trigger(), "");
  EXPECT_EQ(llama.arguments_key, "parameters");
  EXPECT_FALSE(llama.parallel);
  const ToolFormat mistral = format_of(template_source("mistral.jinja"));
  EXPECT_EQ(mistral.before_id, ", \"id\": \"");
  EXPECT_EQ(mistral.ids, ToolFormat::Ids::kNineLetters);
  EXPECT_EQ(format_of(template_source("deepseek.jinja")).section_open, "<|calls|>");
  EXPECT_FALSE(format_of(template_source("llama2.jinja")).rendering.tools);
}

/// What a template renders for calls reads back as the same calls.
TEST(ToolFormat, RenderedCallsReadBack) {
  const std::vector<Tool> tools = {
      {"look_up", "Finds.",
       R"({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "number"},
           "list": {"type": "array"}, "map": {"type": "object"}}})"},
      {"stop", "", ""}};
  std::vector<ToolCall> calls = {
      {"aB3dE6gH9", "look_up",
       R"({"text": "Grüße, \"日本\"\n<b>", "n": -2.5, "list": [], "map": {"a": [1, null]}})"},
      {"zY3dE6gH9", "stop", "{}"}};
  std::map<std::string, std::string> sources = probe_sources();
  for (const char* name : {"qwen3.jinja", "qwen35.jinja", "llama3.jinja", "mistral.jinja",
                           "deepseek.jinja", "harmony.jinja", "command_r.jinja"}) {
    sources[name] = template_source(name);
  }
  for (const auto& [name, source] : sources) {
    SCOPED_TRACE(name);
    const auto parsed = ChatTemplate::create(source);
    ASSERT_TRUE(parsed.ok());
    const ToolFormat format = ToolFormat::of(*parsed, source, probe_options(), "</think>");
    std::vector<ToolCall> wanted = calls;
    if (!format.parallel) wanted.resize(1);
    const std::vector<ChatMessage> messages = {{.role = "user", .content = "Q"},
                                               {.role = "assistant", .tool_calls = wanted}};
    const auto values = messages_value(messages, {}, format);
    ASSERT_TRUE(values.ok());
    ChatOptions options = probe_options();
    options.add_generation_prompt = false;
    const auto chat = parsed->render(*values, options);
    ASSERT_TRUE(chat.ok()) << chat.error().message;
    const std::string trigger = format.trigger();
    size_t at = trigger.empty() ? chat->text.find("{\"name\"") : chat->text.rfind(trigger);
    if (wanted.size() > 1) at = chat->text.find(trigger, chat->text.find('Q'));
    if (format.style == Style::kHarmony) at = chat->text.find(" to=functions");
    ASSERT_NE(at, std::string::npos) << chat->text;
    ToolCallParser parser(format, tools);
    std::vector<ToolEvent> events = parser.push(chat->text.substr(at));
    for (ToolEvent& e : parser.finish()) events.push_back(std::move(e));
    std::vector<ToolCall> got;
    for (const ToolEvent& e : events) {
      if (e.kind == ToolEvent::Kind::kBegin) got.push_back({"", e.text, ""});
      if (e.kind == ToolEvent::Kind::kArguments) got.back().arguments += e.text;
    }
    ASSERT_EQ(got.size(), wanted.size()) << chat->text;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].name, wanted[i].name);
      EXPECT_EQ(nlohmann::json::parse(got[i].arguments, nullptr, false),
                nlohmann::json::parse(wanted[i].arguments))
          << got[i].arguments;
    }
  }
}

}  // namespace
}  // namespace chimere::text
