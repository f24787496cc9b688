// The tests of the operator `is`, and the global functions.
#include <functional>
#include <unordered_map>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

struct Test {
  std::function<bool(Runtime&, const Value& input, const Arguments&)> call;
  std::string_view parameters = "";  ///< see check_arguments
};

Test kind_test(bool (Value::*is)() const) {
  return {[=](Runtime&, const Value& v, const Arguments&) { return (v.*is)(); }};
}

Test order_test(bool (*accept)(int)) {
  return {[=](Runtime& runtime, const Value& v, const Arguments& a) {
            return accept(compare(v, a.positional[0], runtime.budget));
          },
          "/other"};
}

Test equality_test(bool wanted) {
  return {[=](Runtime& runtime, const Value& v, const Arguments& a) {
            return equal(v, a.positional[0], runtime.budget) == wanted;
          },
          "/other"};
}

/// Numbers by their remainder.
Test remainder_test(int64_t divisor, int64_t remainder) {
  const auto call = [=](Runtime& runtime, const Value& v, const Arguments& a) {
    const Value by = divisor != 0 ? Value::integer(divisor) : a.require(0, "num", "divisibleby");
    const Value rest = arithmetic(runtime, "%", v, by);
    return equal(rest, Value::integer(remainder), runtime.budget);
  };
  return {call, divisor != 0 ? "" : "num"};
}

void require_key(const Value& v) {
  if (!can_be_key(v)) fail("A " + v.type_name() + " cannot be a name.");
}

bool is_same(const Value& a, const Value& b, Budget& budget) {
  if (a.is_dict() || (a.is_list() && !a.as_list().items.empty())) return a.address() == b.address();
  return a.type_name() == b.type_name() && equal(a, b, budget);
}

bool is_iterable(Runtime&, const Value& v, const Arguments&) {
  return can_be_looped_over(v) || v.as_loop() != nullptr;
}

bool is_sequence(Runtime&, const Value& v, const Arguments&) {
  const Iterable* i = v.as_iterable();
  return i != nullptr ? i->kind == Iterable::Kind::kRange : can_be_looped_over(v);
}

bool is_callable(Runtime&, const Value& v, const Arguments&) {
  return v.is_undefined() || v.as_callable() != nullptr || v.as_loop() != nullptr ||
         (v.as_cycler() != nullptr && v.as_cycler()->joiner);
}

/// str.islower() and its like of what str() gives.
Test text_test(const char* method) {
  return {[=](Runtime& runtime, const Value& v, const Arguments&) {
    return call_method(runtime, Value::string(to_text(v, runtime.budget)), method, {}).as_bool();
  }};
}

const std::unordered_map<std::string_view, Test>& tests() {
  static const std::unordered_map<std::string_view, Test> table = {
      {"defined", {[](Runtime&, const Value& v, const Arguments&) { return !v.is_undefined(); }}},
      {"undefined", kind_test(&Value::is_undefined)},
      {"none", kind_test(&Value::is_none)},
      {"boolean", kind_test(&Value::is_bool)},
      {"integer", kind_test(&Value::is_integer)},
      {"float", kind_test(&Value::is_real)},
      {"number", kind_test(&Value::is_number)},
      {"string", kind_test(&Value::is_string)},
      {"mapping", kind_test(&Value::is_dict)},
      {"true",
       {[](Runtime&, const Value& v, const Arguments&) { return v.is_bool() && v.as_bool(); }}},
      {"false",
       {[](Runtime&, const Value& v, const Arguments&) { return v.is_bool() && !v.as_bool(); }}},
      {"callable", {is_callable}},
      {"iterable", {is_iterable}},
      {"sequence", {is_sequence}},
      // Strings are never markup.
      {"escaped", {[](Runtime&, const Value&, const Arguments&) { return false; }}},
      {"eq", equality_test(true)},
      {"equalto", equality_test(true)},
      {"==", equality_test(true)},
      {"ne", equality_test(false)},
      {"!=", equality_test(false)},
      {"lt", order_test([](int o) { return o < 0; })},
      {"lessthan", order_test([](int o) { return o < 0; })},
      {"<", order_test([](int o) { return o < 0; })},
      {"le", order_test([](int o) { return o <= 0; })},
      {"<=", order_test([](int o) { return o <= 0; })},
      {"gt", order_test([](int o) { return o > 0; })},
      {"greaterthan", order_test([](int o) { return o > 0; })},
      {">", order_test([](int o) { return o > 0; })},
      {"ge", order_test([](int o) { return o >= 0; })},
      {">=", order_test([](int o) { return o >= 0; })},
      {"even", remainder_test(2, 0)},
      {"odd", remainder_test(2, 1)},
      {"divisibleby", remainder_test(0, 0)},
      {"in",
       {[](Runtime& runtime, const Value& v, const Arguments& a) {
          return contains(a.require(0, "seq", "in"), v, runtime.budget);
        },
        "seq"}},
      {"sameas",
       {[](Runtime& runtime, const Value& v, const Arguments& a) {
          return is_same(v, a.require(0, "other", "sameas"), runtime.budget);
        },
        "other"}},
      {"lower", text_test("islower")},
      {"upper", text_test("isupper")},
      {"filter", {[](Runtime&, const Value& v, const Arguments&) {
         require_key(v);
         return v.is_string() && find_filter(v.as_bytes()) != nullptr;
       }}},
      {"test", {[](Runtime&, const Value& v, const Arguments&) {
         require_key(v);
         return v.is_string() && tests().contains(v.as_bytes());
       }}},
  };
  return table;
}

Value make_range(Runtime& runtime, const Arguments& a) {
  const bool from_zero = a.positional.size() == 1;
  const int64_t start = from_zero ? 0 : a.integer(0, "start", 0);
  const int64_t stop = a.integer(from_zero ? 0 : 1, "stop", 0);
  const int64_t step = a.integer(2, "step", 1);
  if (step == 0) fail("The step of 'range' cannot be zero.");
  return Value::range(start, stop, step, runtime.budget);
}

/// The global functions by their parameters.
const std::unordered_map<std::string_view, std::string_view>& global_functions() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"raise_exception", "message"},
      {"range", "/start [stop] [step]"},
      {"dict", "*"},
      {"strftime_now", "format"},
      {"cycler", "*"},
      {"joiner", "[sep]"},
  };
  return table;
}

}  // namespace

bool apply_test(Runtime& runtime, std::string_view name, const Value& input,
                const Arguments& arguments) {
  runtime.budget.step();
  const auto it = tests().find(name);
  if (it == tests().end()) fail("There is no test '" + std::string(name) + "'.");
  check_arguments(name, it->second.parameters, arguments);
  return it->second.call(runtime, input, arguments);
}

bool is_global_function(std::string_view name) { return global_functions().contains(name); }

Dict make_dict(Runtime& runtime, const Arguments& a) {
  if (a.positional.size() > 1) fail("'dict' takes one argument without a name.");
  Dict dict;
  if (!a.positional.empty() && a.positional[0].is_dict()) {
    dict = a.positional[0].as_dict();
  } else if (!a.positional.empty()) {
    const Value& pairs = a.positional[0];
    if (pairs.is_undefined()) fail("'" + pairs.undefined_name() + "' is undefined.");
    for (const Value& pair : elements(pairs, runtime.budget)) {
      const std::vector<Value> parts = elements(pair, runtime.budget);
      if (parts.size() != 2) fail("'dict' needs pairs of a key and a value.");
      dict.set(parts[0], parts[1]);
    }
  }
  for (const auto& [key, value] : a.named) dict.set(key, value);
  runtime.budget.bytes(static_cast<int64_t>(dict.entries().size() * 2 * sizeof(Value)));
  return dict;
}

Value call_global(Runtime& runtime, std::string_view name, const Arguments& a) {
  check_arguments(name, global_functions().at(name), a);
  if (name == "range") return make_range(runtime, a);
  if (name == "raise_exception") {
    fail("the template refuses the conversation: " +
         to_text(a.require(0, "message", name), runtime.budget).bytes());
  }
  if (name == "dict") return Value::dict(make_dict(runtime, a));
  if (name == "cycler" || name == "joiner") {
    if (name == "cycler" && !a.named.empty()) fail("'cycler' takes no arguments with names.");
    auto made = std::make_shared<Cycler>();
    made->joiner = name == "joiner";
    made->items =
        made->joiner ? std::vector{a.get(0, "sep", Value::string(", ", true))} : a.positional;
    if (made->items.empty()) fail("'cycler' needs values.");
    runtime.budget.bytes(static_cast<int64_t>(sizeof(Cycler) + made->items.size() * sizeof(Value)));
    return Value::of(std::move(made));
  }
  const Value& format = a.require(0, "format", name);
  if (!format.is_string()) fail("'strftime_now' needs a format.");
  char buffer[1024];
  const size_t n = std::strftime(buffer, sizeof buffer, format.as_bytes().c_str(), &runtime.now);
  return Value::string(std::string_view(buffer, n), true);
}

}  // namespace chimere::text::jinja
