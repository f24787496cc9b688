// Methods of everything but strings.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

/// Methods with their parameters, see check_arguments.
using Methods = std::unordered_map<std::string_view, std::string_view>;

/// Those that objects of a kind have, beside strings.
const Methods& methods_of(const Value& object) {
  static const Methods none;
  static const Methods dict = {
      {"copy", ""}, {"get", "/key [default]"}, {"items", ""}, {"keys", ""}, {"values", ""}};
  static const Methods list = {
      {"copy", ""}, {"count", "/value"}, {"index", "/value [start] [stop]"}};
  static const Methods tuple = {{"count", "/value"}, {"index", "/value [start] [stop]"}};
  static const Methods range = {{"count", "/value"}, {"index", "/value"}};
  static const Methods integer = {{"bit_length", ""}};
  static const Methods real = {{"is_integer", ""}};
  static const Methods cycler = {{"next", ""}, {"reset", ""}};
  static const Methods loop = {{"cycle", "*"}, {"changed", "*"}};
  if (object.is_dict()) return dict;
  if (object.is_list()) return object.as_list().tuple ? tuple : list;
  if (object.is_bool() || object.is_integer()) return integer;
  if (object.is_real()) return real;
  if (object.as_loop() != nullptr) return loop;
  if (const Cycler* c = object.as_cycler()) return c->joiner ? none : cycler;
  const Iterable* i = object.as_iterable();
  return i != nullptr && i->kind == Iterable::Kind::kRange ? range : none;
}

Value dict_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& a) {
  const Dict& dict = self.as_dict();
  if (name == "get") {
    const Value& key = a.positional[0];
    if (!can_be_key(key)) fail("A " + key.type_name() + " cannot be the key of a dictionary.");
    const Value* found = dict.find(key);
    return found != nullptr ? *found : a.get(1, "default", Value::none());
  }
  if (name == "copy") return self;
  auto view = std::make_shared<Iterable>();
  view->kind = name == "keys"     ? Iterable::Kind::kKeys
               : name == "values" ? Iterable::Kind::kValues
                                  : Iterable::Kind::kItems;
  view->nesting = dict.nesting() + 1;
  if (view->nesting > kMaxNesting) fail("Lists are nested too deeply.");
  for (const auto& [key, value] : dict.entries()) {
    runtime.budget.bytes(3 * sizeof(Value));
    view->items.push_back(name == "keys"     ? key
                          : name == "values" ? value
                                             : Value::tuple({key, value}));
  }
  return Value::of(std::move(view));
}

Value list_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& a) {
  if (name == "copy") return self;
  const std::vector<Value> items = elements(self, runtime.budget);
  const auto n = static_cast<int64_t>(items.size());
  const auto border = [&](size_t position, const char* what, int64_t otherwise) {
    const int64_t at = a.integer(position, what, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const int64_t stop = border(2, "stop", n);
  int64_t count = 0;
  for (int64_t at = border(1, "start", 0); at < stop; ++at) {
    if (!equal(items[at], a.positional[0], runtime.budget)) continue;
    if (name == "index") return Value::integer(at);
    ++count;
  }
  if (name == "index") fail("'index' does not find the value.");
  return Value::integer(count);
}

Value number_method(const Value& self, std::string_view name) {
  if (name == "is_integer") {
    return Value::boolean(std::isfinite(self.as_real()) &&
                          self.as_real() == std::floor(self.as_real()));
  }
  const auto bits = static_cast<uint64_t>(self.as_integer());
  return Value::integer(std::bit_width(self.as_integer() < 0 ? ~bits + 1 : bits));
}

Value loop_method(Runtime& runtime, Loop& loop, std::string_view name, const Arguments& a) {
  if (name == "cycle") {
    if (a.positional.empty()) fail("'cycle' needs values.");
    return a.positional[loop.index % a.positional.size()];
  }
  const Value now = Value::tuple(a.positional);
  const bool changed = !loop.has_changed_value || !equal(loop.changed_value, now, runtime.budget);
  loop.has_changed_value = true;
  loop.changed_value = now;
  return Value::boolean(changed);
}

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  return object.is_string() ? has_string_method(name) : methods_of(object).contains(name);
}

bool changes_value(std::string_view name) {
  constexpr std::string_view kNames[] = {"append", "clear",   "extend",    "insert",
                                         "remove", "pop",     "sort",      "reverse",
                                         "update", "popitem", "setdefault"};
  return is_in(kNames, name);
}

bool is_left_out(const Value& object, std::string_view name) {
  constexpr std::string_view kOfStrings[] = {"encode", "translate", "maketrans", "format_map"};
  constexpr std::string_view kOfNumbers[] = {
      "as_integer_ratio", "bit_count", "conjugate", "denominator",
      "from_bytes",       "fromhex",   "hex",       "imag",
      "numerator",        "real",      "to_bytes"};
  constexpr std::string_view kOfViews[] = {"isdisjoint", "mapping"};
  if (object.is_string()) return is_in(kOfStrings, name);
  if (object.is_number()) return is_in(kOfNumbers, name);
  const Iterable* i = object.as_iterable();
  return i != nullptr && i->kind != Iterable::Kind::kRange && is_in(kOfViews, name);
}

Value call_method(Runtime& runtime, const Value& self, std::string_view name,
                  const Arguments& arguments) {
  if (self.is_string()) return call_string_method(runtime, self, name, arguments);
  check_arguments(name, methods_of(self).at(name), arguments);
  if (Cycler* cycler = self.as_cycler()) {
    if (name == "reset") {
      cycler->at = 0;
      return Value::none();
    }
    Value now = cycler->items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->items.size();
    return now;
  }
  if (Loop* loop = self.as_loop()) return loop_method(runtime, *loop, name, arguments);
  if (self.is_number()) return number_method(self, name);
  return self.is_dict() ? dict_method(runtime, self, name, arguments)
                        : list_method(runtime, self, name, arguments);
}

}  // namespace chimere::text::jinja
