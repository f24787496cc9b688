#include "text/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/fresh_seed.h"
#include "text/jinja/json.h"

namespace chimere::text::jinja {
namespace {

using ::testing::HasSubstr;

const std::string kData = CHIMERE_TEXT_TESTDATA;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Value json(const std::string& text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : Value::none();
}

/// The day that the scripts beside the test data use.
std::tm fixed_day() {
  std::tm day = {};
  day.tm_year = 124;
  day.tm_mon = 6;
  day.tm_mday = 26;
  day.tm_wday = 5;
  day.tm_yday = 207;
  return day;
}

Result<std::string> render(const std::string& source, const Value& variables,
                           const Limits& limits = {}) {
  CHIMERE_TRY(const Template parsed, Template::parse(source));
  CHIMERE_TRY(const MarkedText text, parsed.render(variables.as_dict(), fixed_day(), limits));
  return text.bytes();
}

std::string error_of(const std::string& source, const std::string& variables = "{}",
                     const Limits& limits = {}) {
  const auto result = render(source, json(variables), limits);
  return result.ok() ? "rendered: " + *result : result.error().message;
}

/// `expected`: a string, or none where Jinja2 fails.
void expect_same(const Result<std::string>& ours, const Value& expected, const std::string& what) {
  if (expected.is_none()) {
    EXPECT_FALSE(ours.ok()) << what << " renders as " << *ours;
  } else {
    ASSERT_TRUE(ours.ok()) << what << ": " << ours.error().message;
    EXPECT_EQ(*ours, expected.as_bytes()) << what;
  }
}

TEST(Template, EqualsRecordedJinja2) {
  const std::vector<std::string> snippets = read_lines(kData + "/snippets.txt");
  const std::vector<std::string> conversations = read_lines(kData + "/conversations.jsonl");
  const Value snippet_variables = json(read_file(kData + "/snippet_variables.json"));
  int n = 0;
  for (const std::string& line : read_lines(kData + "/expected.jsonl")) {
    const Value fields = json(line);
    const std::string& name = fields.as_list().items[0].as_bytes();
    const int64_t index = fields.as_list().items[1].as_integer();
    const Value& expected = fields.as_list().items[2];
    if (name.empty()) {
      std::string source = snippets.at(index);
      for (size_t at = source.find("\u2424"); at != std::string::npos; at = source.find("\u2424")) {
        source.replace(at, 3, "\n");
      }
      expect_same(render(source, snippet_variables), expected, source);
    } else {
      expect_same(render(read_file(kData + "/templates/" + name), json(conversations.at(index))),
                  expected, name + " with conversation " + std::to_string(index));
    }
    ++n;
  }
  EXPECT_GT(n, 250);
}

// The same against the library itself, with random conversations.
TEST(Template, EqualsInstalledJinja2) {
  if (std::system("/usr/bin/python3 -c 'import jinja2' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-jinja2 is not installed";
  }
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string base =
      (std::filesystem::temp_directory_path() / ("chimere_template_test_" + std::to_string(seed)))
          .string();
  const std::string script = "/usr/bin/python3 -B " + kData;
  ASSERT_EQ(std::system((script + "/make_conversations.py " + std::to_string(seed) + " 25 > " +
                         base + ".conversations")
                            .c_str()),
            0);
  std::vector<std::pair<std::string, Value>> cases;
  Limits limits;
  Budget budget(limits);
  {
    std::ofstream input(base + ".input", std::ios::binary);
    for (const auto& entry : std::filesystem::directory_iterator(kData + "/templates")) {
      const std::string source = read_file(entry.path());
      for (const std::string& line : read_lines(base + ".conversations")) {
        cases.emplace_back(entry.path().filename().string(), json(line));
        const Value request = Value::list({Value::string(source, true), cases.back().second});
        input << to_json(request, {}, budget).bytes() << "\n";
      }
    }
  }
  ASSERT_EQ(
      std::system(
          (script + "/render_with_jinja2.py < " + base + ".input > " + base + ".output").c_str()),
      0);
  const std::vector<std::string> outputs = read_lines(base + ".output");
  ASSERT_EQ(outputs.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Value output = json(outputs[i]);
    const Value* text = output.as_dict().find("ok");
    expect_same(render(read_file(kData + "/templates/" + cases[i].first), cases[i].second),
                text == nullptr ? Value::none() : *text, cases[i].first);
  }
  for (const char* suffix : {".conversations", ".input", ".output"}) {
    std::filesystem::remove(base + suffix);
  }
}

TEST(Template, ErrorsNameTheLineAndTheReason) {
  EXPECT_THAT(error_of("a\n{% if x %}\nb"), HasSubstr("Line 3: 'endif' is missing"));
  EXPECT_THAT(error_of("a\n{{ 1 +"), HasSubstr("Line 2: A tag has no end"));
  EXPECT_THAT(error_of("{% include 'x' %}"), HasSubstr("not supported in chat templates"));
  EXPECT_THAT(
      error_of("\n{{ raise_exception('No ' ~ n ~ ' turns') }}", R"({"n": 3})"),
      HasSubstr("Line 2 of the chat template: the template refuses the conversation: No 3"));
  EXPECT_THAT(error_of("{{ x.y.z }}", R"({"x": {}})"), HasSubstr("'y' is undefined"));
  EXPECT_THAT(error_of("{{ '% é' % 1 }}"), HasSubstr("'% é'"));  // whole characters
}

TEST(Template, HostileTemplatesEndWithAnError) {
  Limits limits;  // smaller than the default, for the time of the test
  limits.steps = 500'000;
  limits.bytes = 1 << 25;
  const std::string many(100'000, '(');
  const std::string nots = [] {
    std::string s;
    for (int i = 0; i < 50'000; ++i) s += "not ";
    return s;
  }();
  std::string blocks;
  for (int i = 0; i < 50'000; ++i) blocks += "{% if 1 %}";
  std::string sum = "1";
  for (int i = 0; i < 50'000; ++i) sum += "+1";
  for (const std::string& source : {
           "{{ " + many + " }}",
           "{{ " + nots + "1 }}",
           "{{ " + sum + " }}",
           blocks,
           std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
           std::string(
               "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
           std::string("{% set n = namespace(s='x') %}{% for i in range(99) %}"
                       "{% set n.s = n.s ~ n.s %}{% endfor %}"),
           std::string("{% set n = namespace(s=[]) %}{% for i in range(999) %}"
                       "{% set n.s = [n.s, n.s] %}{% endfor %}"),
           std::string("{% set n = namespace(s=[]) %}{% for i in range(60) %}"
                       "{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s == n.s }}{{ n.s }}"),
           std::string("{{ 'x' * 9223372036854775807 }}"),
           std::string("{{ [1] * 999999999 }}"),
           std::string("{{ '%99999999d' % 1 }}"),
           std::string("{{ 'a' | indent(9999999999) }}"),
           std::string("{{ '1'.zfill(9223372036854775807) }}"),
           std::string("{{ 10 ** 100 }}"),
           std::string("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
           std::string("{% for x in [1, 2, 3] recursive %}{{ loop([1, 2, 3]) if loop.depth < 40 }}"
                       "{% endfor %}"),
           std::string("{{ 'x'.center(9223372036854775807, 'é') }}"),
           std::string("{{ [1] | slice(9223372036854775807) | list }}"),
           std::string("{{ f(*range(99999), **d) }}"),
           std::string("{% macro f(a) %}{% endmacro %}{{ f(*('x' * 99999999)) }}"),
           std::string("{{ (-9223372036854775807 - 1) // -1 }}"),
           std::string("{{ ('x' * 9999) | replace('', 'y' * 999999) }}"),
           std::string("{{ '{:2000000000}'.format(1) }}"),
           std::string("{{ '%.*f' % (2000000000, 1) }}"),
           std::string("{{ '{:{}}'.format(1, 99999999999) }}"),
           std::string("{% set n = namespace(s=(1,)) %}{% for i in range(60) %}"
                       "{% set n.s = (n.s, n.s) %}{% endfor %}{{ {n.s: 1} }}"),
           std::string("{% set n = namespace(s=[]) %}{% for i in range(60) %}"
                       "{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s | pprint }}"),
           std::string("{% set n = namespace() %}{% set n.n = [n] %}{{ n }}"),
           std::string("{{ [1] | batch(9223372036854775807, 0) | list }}"),
           std::string("{{ [1] | tojson(indent=9223372036854775807) }}"),
           std::string("{{ ('x,' * 9999999).split(',') | join('yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'"
                       " * 99) }}"),
       }) {
    EXPECT_FALSE(render(source, json("{}"), limits).ok()) << source.substr(0, 100);
  }
}

TEST(Template, GeneratorsAreNotLists) {
  const auto shown = [](const std::string& source) {
    const auto result = render(source, json(R"({"l": [3, 1, 2], "d": {"a": 1}, "nil": null})"));
    return result.ok() ? *result : "error";
  };
  // Generators give their items once and are true even if there are none.
  EXPECT_EQ(shown("{% set g = l | map('string') %}{{ g | join }}{{ g | join }}"), "312");
  EXPECT_EQ(shown("{{ 'yes' if l | select('none') else 'no' }}"), "yes");
  EXPECT_EQ(shown("{{ l | map('string') | length }}"), "error");
  EXPECT_EQ(shown("{% set g = [1, 'a'] | map('abs') %}{{ g | first }}"), "1");
  EXPECT_EQ(shown("{{ [1, 'a'] | map('abs') | list }}"), "error");
  EXPECT_EQ(shown("{{ range(3) }}{{ range(9)[::-2] }}{{ range(3)[1] }}"),
            "range(0, 3)range(8, -1, -2)1");
  EXPECT_EQ(shown("{{ range(3) | tojson }}"), "error");
  EXPECT_EQ(shown("{{ d.items() }}{{ d.keys() | length }}{{ d.items()[0] }}"),
            "dict_items([('a', 1)])1");
  EXPECT_EQ(shown("{{ {(1, 2): 'x'}[1, 2] }}{{ [1, 1.0, true] | unique | list }}"), "x[1]");
}

TEST(Template, ArgumentsAreCheckedAsPythonChecksThem) {
  const std::string variables = R"({"s": "Hello", "l": [1], "nil": null})";
  EXPECT_THAT(error_of("{{ missing | indent }}", variables), HasSubstr("'indent' needs a string"));
  EXPECT_THAT(error_of("{{ s.replace('l', 'L', count=1) }}", variables), HasSubstr("with names"));
  EXPECT_THAT(error_of("{{ s | replace('l') }}", variables), HasSubstr("needs the argument 'new'"));
  EXPECT_THAT(error_of("{{ s | trim('a', 'b') }}", variables), HasSubstr("at most 1"));
  EXPECT_THAT(error_of("{{ s | round(zz=1) }}", variables), HasSubstr("does not know"));
  EXPECT_THAT(error_of("{{ range(nil) }}", variables), HasSubstr("must be an integer"));
  EXPECT_THAT(error_of("{{ s is defined(1) }}", variables), HasSubstr("at most 0"));
  EXPECT_THAT(error_of("{{ s % 1 }}", variables), HasSubstr("too many values"));
  EXPECT_THAT(error_of("{{ s.encode() }}", variables), HasSubstr("'encode' of a str"));
  EXPECT_THAT(error_of("{{ l.append(1) }}", variables), HasSubstr("would change a value"));
}

TEST(Template, LimitsAreKept) {
  Limits limits;
  limits.steps = 1000;
  EXPECT_THAT(error_of("{% for i in range(5000) %}{{ i }}{% endfor %}", "{}", limits),
              HasSubstr("too many steps"));
  limits = {};
  limits.output_bytes = 100;
  EXPECT_THAT(error_of("{% for i in range(200) %}x{% endfor %}", "{}", limits),
              HasSubstr("output of the template is too long"));
  limits = {};
  limits.bytes = 10'000;
  EXPECT_THAT(error_of("{{ 'x' * 20000 }}", "{}", limits), HasSubstr("too much text"));
}

TEST(Template, CyclesOfNamespacesAndMacrosAreFreed) {
  // A leak shows under the address sanitizer.
  const auto loops = render(
      "{% set n = namespace() %}{% for x in [1] recursive %}{% set n.l = loop %}"
      "{% set n.c = cycler(n, loop) %}{% set y = loop %}{{ loop([]) }}{% endfor %}",
      json("{}"));
  EXPECT_TRUE(loops.ok()) << loops.error().message;
  const auto result = render(
      "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
      "{% macro f() %}{{ f is defined }}{% endmacro %}{% set a.f = f %}{{ a.b.a.f() }}",
      json("{}"));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(*result, "True");
}

TEST(MarkedText, OperationsKeepTheMark) {
  const auto trusted_part = [](const std::string& source) {
    const auto parsed = Template::parse(source);
    EXPECT_TRUE(parsed.ok());
    const auto out =
        parsed->render(json(R"({"u": "UUU", "l": ["U", "u"]})").as_dict(), fixed_day());
    EXPECT_TRUE(out.ok()) << out.error().message;
    // The template's own text unchanged, the rest as dots.
    std::string shown(out->size(), '.');
    for (const TextRange& r : out->trusted_ranges()) {
      shown.replace(r.begin, r.end - r.begin, out->bytes(), r.begin, r.end - r.begin);
    }
    return shown;
  };
  EXPECT_EQ(trusted_part("a{{ u }}b"), "a...b");
  EXPECT_EQ(trusted_part("{{ 'a' + u + 'b' ~ u }}"), "a...b...");
  EXPECT_EQ(trusted_part("{{ ('ab' + u)[1:4] }}"), "b..");
  EXPECT_EQ(trusted_part("{{ ('ab' ~ u) | upper }}{{ u | lower | trim }}"), "AB......");
  EXPECT_EQ(trusted_part("{{ u.replace('U', 'x', 1) }}{{ 'axa' | replace('x', u) }}"), "x..a...a");
  EXPECT_EQ(trusted_part("{{ l | join('-') }}{{ '%s+%s' % (u, 1) }}"), ".-....+1");
  EXPECT_EQ(trusted_part("{{ l | tojson }}"), "[\".\", \".\"]");
  EXPECT_EQ(trusted_part("{{ [1] | tojson(indent=u) }}"), "[\n...1\n]");
  EXPECT_EQ(trusted_part("{{ 'a{}b{:>5}'.format(u, u) }}{{ '%-4s|%.1s' % (u, u) }}"),
            "a...b  ...... |.");
  EXPECT_EQ(trusted_part("{{ [u, 1] | pprint }}{{ u | wordwrap(2) }}"), "['...', 1]..\n.");
  EXPECT_EQ(trusted_part("{{ ('<b>&lt;' + u) | striptags }}{{ u | map('upper') | join('+') }}"),
            "<....+.+.");
  EXPECT_EQ(trusted_part("{% set x %}a{{ u }}{% endset %}{{ x }}{{ x.split('U')[0] }}"), "a...a");
  EXPECT_EQ(trusted_part("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(u) | indent }}"), "<...>");
  EXPECT_EQ(trusted_part("{{ l }}{{ u * 2 }}{{ u | reverse }}{{ u[0] }}"), "['.', '.']..........");
}

TEST(Json, ReadsAndWritesBack) {
  Limits limits;
  Budget budget(limits);
  for (const std::string text :
       {"null", "[true, false, -12, 0.5, 1e+30]", R"({"a": {"b": []}, "é": "\n\"\\"})", "{}",
        R"("👍")", "-0.0", "9223372036854775807"}) {
    EXPECT_EQ(to_json(json(text), {}, budget).bytes(), text);
  }
  EXPECT_EQ(json(R"("\u00e9\ud83d\udc4dx")").as_bytes(), "é👍x");
  EXPECT_TRUE(json("12345678901234567890").is_real());
}

TEST(Json, RefusesDamage) {
  for (const std::string text :
       {"", "nul", "[1,]", "[1", "{\"a\" 1}", "{a: 1}", "\"x", "\"\n\"", "01", "1.", "-", "1 2",
        "\"\\x\"", "\"\\u12\"", "1e999", "'a'", "\"\\ud800x\"", "\"\xff\"", "NaN"}) {
    EXPECT_FALSE(parse_json(text).ok()) << text;
  }
  EXPECT_FALSE(parse_json(std::string(100'000, '[')).ok());
  EXPECT_FALSE(parse_json("{\"a\":" + std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace chimere::text::jinja
