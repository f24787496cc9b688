// Methods of dictionaries, lists, loops and cyclers.
#include <algorithm>
#include <cstdint>
#include <span>

#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
/// Known, so that their use has a message of its own.
constexpr std::string_view kChangingMethods[] = {"append", "clear",   "extend",    "insert",
                                                 "remove", "pop",     "sort",      "reverse",
                                                 "update", "popitem", "setdefault"};

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Value dict_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& a) {
  const Dict& dict = self.as_dict();
  if (name == "get") {
    const Value& key = a.require(0, "key", "get");
    if (!can_be_key(key)) fail("A " + key.type_name() + " cannot be the key of a dictionary.");
    const Value* found = dict.find(key);
    return found != nullptr ? *found : a.get(1, "default", Value::none());
  }
  if (name == "copy") return self;
  if (name == "keys") return Value::list(elements(self, runtime.budget));
  std::vector<Value> out;
  for (const auto& [key, value] : dict.entries()) {
    runtime.budget.bytes(3 * sizeof(Value));
    out.push_back(name == "items" ? Value::tuple({key, value}) : value);
  }
  return Value::list(std::move(out));
}

Value list_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& a) {
  if (name == "copy") return self;
  const Value& wanted = a.require(0, "value", name);
  int64_t n = 0;
  int64_t count = 0;
  for (const Value& item : self.as_list().items) {
    const bool same = equal(item, wanted, runtime.budget);
    if (same && name == "index") return Value::integer(n);
    count += same ? 1 : 0;
    ++n;
  }
  if (name == "index") fail("'index' does not find the value.");
  return Value::integer(count);
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

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  if (object.is_string()) return has_string_method(name);
  if (object.is_dict()) return is_in(kDictMethods, name) || is_in(kChangingMethods, name);
  if (object.is_list()) return is_in(kListMethods, name) || is_in(kChangingMethods, name);
  if (object.as_cycler() != nullptr) return name == "next" || name == "reset";
  return object.as_loop() != nullptr && (name == "cycle" || name == "changed");
}

Value call_method(Runtime& runtime, const Value& self, std::string_view name,
                  const Arguments& arguments) {
  if (self.is_string()) return call_string_method(runtime, self, name, arguments);
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
  if (is_in(kChangingMethods, name)) {
    fail("'" + std::string(name) + "' would change a " + self.type_name() +
         ", which templates must not do.");
  }
  return self.is_dict() ? dict_method(runtime, self, name, arguments)
                        : list_method(runtime, self, name, arguments);
}

}  // namespace chimere::text::jinja
