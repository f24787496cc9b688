// How values are written: Python's str() and repr().
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/characters.h"
#include "text/jinja/value.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

void put(std::string_view bytes, Budget& budget, MarkedText& out) {
  budget.bytes(static_cast<int64_t>(bytes.size()));
  out.append(bytes, true);
}

void write_string_repr(const MarkedText& s, Budget& budget, MarkedText& out) {
  const std::string& bytes = s.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos;
  const bool has_double = bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  budget.bytes(static_cast<int64_t>(s.size()) + 2);
  out.append(std::string_view(&quote, 1), true);
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = read_utf8(bytes, at);
    const bool valid = c.kind == Utf8Char::Kind::kValid;
    const size_t end = at + (valid ? c.length : 1);
    char escape[16] = {};
    if (!valid) {
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<uint8_t>(bytes[at]));
    } else if (c.code == static_cast<uint8_t>(quote) || c.code == '\\') {
      escape[0] = '\\';
      escape[1] = static_cast<char>(c.code);
    } else if (c.code == '\n' || c.code == '\r' || c.code == '\t') {
      escape[0] = '\\';
      escape[1] = c.code == '\n' ? 'n' : c.code == '\r' ? 'r' : 't';
    } else if (!is_printable(c.code)) {
      const char* format = c.code < 0x100 ? "\\x%02x" : c.code < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape, sizeof escape, format, c.code);
    }
    if (escape[0] != 0) {
      put(escape, budget, out);
    } else {
      out.append(s, at, end);
    }
    at = end;
  }
  out.append(std::string_view(&quote, 1), true);
}

}  // namespace

std::string format_real(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto [end, _] =
      std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific);
  // digits "d.ddde±xx"
  std::string scientific(buffer, end);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  char fixed[64];
  char* const stop = std::to_chars(fixed, fixed + sizeof fixed, d, std::chars_format::fixed).ptr;
  std::string out(fixed, stop);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void write_str(const Value& value, Budget& budget, MarkedText& out) {
  if (value.is_string()) {
    budget.bytes(static_cast<int64_t>(value.as_text().size()));
    out.append(value.as_text());
  } else if (!value.is_undefined()) {
    write_repr(value, budget, out);
  }
}

void write_repr(const Value& value, Budget& budget, MarkedText& out) {
  const Budget::Level level(budget);  // a namespace can hold itself
  budget.step();
  if (value.is_undefined()) {
    put("Undefined", budget, out);
  } else if (value.is_none()) {
    put("None", budget, out);
  } else if (value.is_bool()) {
    put(value.as_bool() ? "True" : "False", budget, out);
  } else if (value.is_integer()) {
    put(std::to_string(value.as_integer()), budget, out);
  } else if (value.is_real()) {
    put(format_real(value.as_real()), budget, out);
  } else if (value.is_string()) {
    write_string_repr(value.as_text(), budget, out);
  } else if (value.is_list()) {
    const List& list = value.as_list();
    put(list.tuple ? "(" : "[", budget, out);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(", ", budget, out);
      write_repr(list.items[i], budget, out);
    }
    if (list.tuple && list.items.size() == 1) put(",", budget, out);
    put(list.tuple ? ")" : "]", budget, out);
  } else if (value.is_dict()) {
    put("{", budget, out);
    bool first = true;
    for (const auto& [key, item] : value.as_dict().entries()) {
      if (!first) put(", ", budget, out);
      first = false;
      write_repr(key, budget, out);
      put(": ", budget, out);
      write_repr(item, budget, out);
    }
    put("}", budget, out);
  } else if (const Iterable* i = value.as_iterable();
             i != nullptr && i->kind == Iterable::Kind::kRange) {
    const std::string step = i->step == 1 ? "" : ", " + std::to_string(i->step);
    put("range(" + std::to_string(i->start) + ", " + std::to_string(i->stop) + step + ")", budget,
        out);
  } else if (i != nullptr && i->kind != Iterable::Kind::kGenerator) {
    put(value.type_name() + "(", budget, out);
    write_repr(Value::list(i->items), budget, out);
    put(")", budget, out);
  } else if (const Namespace* n = value.as_namespace()) {
    put("<Namespace ", budget, out);
    write_repr(Value::dict(n->members), budget, out);
    put(">", budget, out);
  } else if (const Loop* loop = value.as_loop()) {
    put("<LoopContext " + std::to_string(loop->index + 1) + "/" +
            std::to_string(loop->items.size()) + ">",
        budget, out);
  } else if (const Callable* f = value.as_callable(); f != nullptr &&
                                                      f->kind != Callable::Kind::kGlobal &&
                                                      f->kind != Callable::Kind::kMethod) {
    put("<Macro ", budget, out);
    write_repr(f->kind == Callable::Kind::kMacro ? Value::string(f->name, true) : Value::none(),
               budget, out);
    put(">", budget, out);
  } else {
    put("<" + value.type_name() + ">", budget, out);
  }
}

MarkedText to_text(const Value& value, Budget& budget) {
  MarkedText out;
  write_str(value, budget, out);
  return out;
}

}  // namespace chimere::text::jinja
