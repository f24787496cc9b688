// The tests behind `is`, and the global functions.
#include <functional>
#include <unordered_map>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

using Test = std::function<bool(Runtime&, const Value& input, const Arguments&)>;

Test kind_test(bool (Value::*is)() const) {
  return [=](Runtime&, const Value& v, const Arguments&) { return (v.*is)(); };
}

Test order_test(bool (*accept)(int)) {
  return [=](Runtime& runtime, const Value& v, const Arguments& a) {
    return accept(compare(v, a.require(0, "other", "comparison"), runtime.budget));
  };
}

Test equality_test(bool wanted) {
  return [=](Runtime& runtime, const Value& v, const Arguments& a) {
    return equal(v, a.require(0, "other", "eq"), runtime.budget) == wanted;
  };
}

/// Numbers by their remainder.
Test remainder_test(int64_t divisor, int64_t remainder) {
  return [=](Runtime& runtime, const Value& v, const Arguments& a) {
    const Value by = divisor != 0 ? Value::integer(divisor) : a.require(0, "num", "divisibleby");
    const Value rest = arithmetic(runtime, "%", v, by);
    return equal(rest, Value::integer(remainder), runtime.budget);
  };
}

void require_key(const Value& v) {
  if (!can_be_key(v)) fail("A " + v.type_name() + " cannot be a name.");
}

bool is_same(const Value& a, const Value& b, Budget& budget) {
  return a.type_name() == b.type_name() && equal(a, b, budget);
}

const std::unordered_map<std::string_view, Test>& tests() {
  static const std::unordered_map<std::string_view, Test> table = {
      {"defined", [](Runtime&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
      {"undefined", kind_test(&Value::is_undefined)},
      {"none", kind_test(&Value::is_none)},
      {"boolean", kind_test(&Value::is_bool)},
      {"integer", kind_test(&Value::is_integer)},
      {"float", kind_test(&Value::is_real)},
      {"number", kind_test(&Value::is_number)},
      {"string", kind_test(&Value::is_string)},
      {"mapping", kind_test(&Value::is_dict)},
      {"true",
       [](Runtime&, const Value& v, const Arguments&) { return v.is_bool() && v.as_bool(); }},
      {"false",
       [](Runtime&, const Value& v, const Arguments&) { return v.is_bool() && !v.as_bool(); }},
      {"callable",
       [](Runtime&, const Value& v, const Arguments&) {
         return v.is_undefined() || v.as_callable() != nullptr || v.as_loop() != nullptr ||
                (v.as_cycler() != nullptr && v.as_cycler()->joiner);
       }},
      {"iterable",
       [](Runtime&, const Value& v, const Arguments&) {
         return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
       }},
      {"sequence",
       [](Runtime&, const Value& v, const Arguments&) {
         return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
       }},
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
       [](Runtime& runtime, const Value& v, const Arguments& a) {
         return contains(a.require(0, "seq", "in"), v, runtime.budget);
       }},
      {"sameas",
       [](Runtime& runtime, const Value& v, const Arguments& a) {
         return is_same(v, a.require(0, "other", "sameas"), runtime.budget);
       }},
      {"lower",
       [](Runtime& runtime, const Value& v, const Arguments&) {
         return call_method(runtime, Value::string(to_text(v, runtime.budget)), "islower", {})
             .as_bool();
       }},
      {"upper",
       [](Runtime& runtime, const Value& v, const Arguments&) {
         return call_method(runtime, Value::string(to_text(v, runtime.budget)), "isupper", {})
             .as_bool();
       }},
      {"filter",
       [](Runtime&, const Value& v, const Arguments&) {
         require_key(v);
         return v.is_string() && (find_text_filter(v.as_bytes()) != nullptr ||
                                  find_sequence_filter(v.as_bytes()) != nullptr);
       }},
      {"test",
       [](Runtime&, const Value& v, const Arguments&) {
         require_key(v);
         return v.is_string() && tests().contains(v.as_bytes());
       }},
  };
  return table;
}

Value make_range(Runtime& runtime, const Arguments& a) {
  constexpr int64_t kMaxRange = 100'000;  // that of Jinja's sandbox
  const size_t n = a.positional.size();
  if (n < 1 || n > 3 || !a.named.empty()) fail("'range' takes one to three numbers.");
  const int64_t start = n == 1 ? 0 : a.integer(0, "start", 0);
  const int64_t stop = a.integer(n == 1 ? 0 : 1, "stop", 0);
  const int64_t step = a.integer(2, "step", 1);
  if (step == 0) fail("The step of 'range' cannot be zero.");
  std::vector<Value> out;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(out.size()) >= kMaxRange) {
      fail("'range' gives at most " + std::to_string(kMaxRange) + " numbers.");
    }
    runtime.budget.bytes(sizeof(Value));
    out.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(out));
}

}  // namespace

bool apply_test(Runtime& runtime, std::string_view name, const Value& input,
                const Arguments& arguments) {
  runtime.budget.step();
  const auto it = tests().find(name);
  if (it == tests().end()) fail("There is no test '" + std::string(name) + "'.");
  return it->second(runtime, input, arguments);
}

bool is_global_function(std::string_view name) {
  return name == "raise_exception" || name == "range" || name == "dict" || name == "strftime_now" ||
         name == "cycler" || name == "joiner";
}

Value call_global(Runtime& runtime, std::string_view name, const Arguments& a) {
  if (name == "range") return make_range(runtime, a);
  if (name == "raise_exception") {
    fail("the template refuses the conversation: " +
         to_text(a.get(0, "message", Value::none()), runtime.budget).bytes());
  }
  if (name == "dict") {
    Dict dict;
    if (!a.positional.empty() && a.positional[0].is_dict()) dict = a.positional[0].as_dict();
    for (const auto& [key, value] : a.named) dict.set(key, value);
    runtime.budget.bytes(static_cast<int64_t>(dict.entries().size() * 2 * sizeof(Value)));
    return Value::dict(std::move(dict));
  }
  if (name == "cycler" || name == "joiner") {
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
