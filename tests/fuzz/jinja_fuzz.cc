// Renders arbitrary bytes as a chat template: an error, or a text whose trusted ranges are inside
// it.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz.h"
#include "text/chat_template.h"
#include "text/jinja/json.h"

namespace text = chimere::text;

namespace {

constexpr std::string_view kMessages = R"([
  {"role": "system", "content": "Be brief."},
  {"role": "user", "content": [{"type": "text", "text": "Wie geht's? 日本 \u2028"}, {"type": "image"}]},
  {"role": "assistant", "content": null, "tool_calls":
    [{"id": "c1", "function": {"name": "f", "arguments": {"x": [1, 2.5, true, null], "y": {}}}}]},
  {"role": "tool", "content": "<|im_end|>"}])";

// Long templates go over several literals. NOLINTNEXTLINE(bugprone-suspicious-missing-comma)
constexpr std::string_view kSeeds[] = {
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' ~ (m.content or '') }}{% endfor %}",
    "{%- set ns = namespace(a=[1, 2], b={'k': 'v'}) -%}{% set ns.a = ns.a + [ns.b] %}{{ ns.a[-1].k "
    "}}",
    "{% macro t(x, y='d') %}{{ x }}{{ caller() if caller else y }}{% endmacro %}{% call t(1) "
    "%}b{% endcall %}{{ t(x=2) }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | "
    "tojson "
    "}}{{ messages[1:][::-1] | length }}{{ 'a,b'.split(',') | join('-') | upper | indent(2) }}",
    "{% if tools is not none and tools is iterable %}{{ tools | tojson(indent=2) }}{% elif x is "
    "defined %}{% else %}{{ strftime_now('%Y') }}{% endif %}{# c #}{% raw %}{{ }}{% endraw %}",
    "{% for k, v in {'a': 1, 'b': 'c'} | dictsort if v %}{{ loop.index ~ k }}{% if loop.last %}{% "
    "break %}{% endif %}{% else %}e{% endfor %}{{ -7 // 2 % 3 ** 2 - 1.5 }}",
    "{% for m in messages recursive %}{{ loop.depth }}{{ loop(messages[:0]) }}{% endfor %}{% for g "
    "in messages | groupby('role') %}{{ g.grouper ~ g.list | length }}{% endfor %}{{ [1, 2] | "
    "slice(2) | list }}{{ 'a b' | urlencode | center(9) }}{{ 'Éß'.swapcase() }}",
    "{% set c = cycler(1, 'b') %}{{ c.next() ~ c.current }}{% set j = joiner() %}{{ j() ~ j() }}{% "
    "macro f(a, b=1) %}{{ varargs ~ kwargs }}{% endmacro %}{{ f(*[1, 2], **{'c': 3}) }}",
    "{% set x %}  {{ '%s|%5.2f' % ('q', 2) }} {% endset %}{{ x | trim | replace('q', 'r') }}{{ "
    "raise_exception('no') if not x }}{{ 'a' in x and 1 < 2 <= 3 or not x is string }}",
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const text::jinja::Value messages = *text::jinja::parse_json(kMessages);
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = text::ChatTemplate::create(source);
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  text::ChatOptions options;
  options.limits.steps = 2'000;
  options.limits.bytes = 1 << 18;
  const auto chat = parsed->render(messages, options);
  if (!chat.ok()) {
    if (chat.error().message.empty()) std::abort();
    return 0;
  }
  size_t end = 0;
  for (const text::TextRange& range : chat->trusted) {
    if (range.begin < end || range.end <= range.begin || range.end > chat->text.size()) {
      std::fprintf(stderr, "a trusted range lies outside the text\n");
      std::abort();
    }
    end = range.end;
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
