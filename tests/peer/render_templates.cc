// Renders templates for comparisons with Jinja2: reads JSON lines [template, variables], writes
// JSON lines {"ok": text} or {"error": message}. strftime_now gives 2024-07-26, as in
// render_with_jinja2.py.
#include <ctime>
#include <iostream>
#include <string>

#include "text/jinja/json.h"
#include "text/jinja/template.h"

namespace jinja = chimere::text::jinja;

namespace {

std::tm fixed_day() {
  std::tm day = {};
  day.tm_year = 124;
  day.tm_mon = 6;
  day.tm_mday = 26;
  day.tm_wday = 5;
  day.tm_yday = 207;
  return day;
}

chimere::Result<std::string> render(const std::string& line) {
  CHIMERE_TRY(const jinja::Value request, jinja::parse_json(line));
  const auto& fields = request.as_list().items;
  CHIMERE_TRY(const jinja::Template parsed, jinja::Template::parse(fields.at(0).as_bytes()));
  CHIMERE_TRY(const jinja::MarkedText text, parsed.render(fields.at(1).as_dict(), fixed_day()));
  return text.bytes();
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = render(line);
    jinja::Dict answer;
    answer.set(text.ok() ? "ok" : "error",
               jinja::Value::string(text.ok() ? *text : text.error().message, true));
    const jinja::Limits limits;
    jinja::Budget budget(limits);
    std::cout << jinja::to_json(jinja::Value::dict(std::move(answer)), {}, budget).bytes() << '\n';
  }
  return 0;
}
