// Attributes, items, slices and arithmetic.
#include <algorithm>
#include <cmath>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"

namespace chimere::text::jinja {
namespace {

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto at = static_cast<int64_t>(loop.index);
  const auto n = static_cast<int64_t>(loop.items.size());
  const bool looks_ahead = name == "length" || name == "revindex" || name == "revindex0" ||
                           (at + 1 == n && (name == "last" || name == "nextitem"));
  if (looks_ahead && !loop.error.empty()) fail(loop.error);
  if (name == "index") return Value::integer(at + 1);
  if (name == "index0") return Value::integer(at);
  if (name == "revindex") return Value::integer(n - at);
  if (name == "revindex0") return Value::integer(n - at - 1);
  if (name == "first") return Value::boolean(at == 0);
  if (name == "last") return Value::boolean(at + 1 == n);
  if (name == "length") return Value::integer(n);
  if (name == "depth") return Value::integer(loop.depth);
  if (name == "depth0") return Value::integer(loop.depth - 1);
  if (name == "previtem" && at > 0) return loop.items[at - 1];
  if (name == "nextitem" && at + 1 < n) return loop.items[at + 1];
  return Value::undefined("loop." + std::string(name));
}

[[noreturn]] void fail_overflow() { fail("An integer grows beyond 64 bits."); }

int64_t multiply(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) fail_overflow();
  return out;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) fail("A number is divided by zero.");
  if (b == -1) return multiply(a, -1);
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if (exponent % 2 != 0) result = multiply(result, base);
    exponent /= 2;
    if (exponent > 0) base = multiply(base, base);
  }
  return result;
}

Value integer_arithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "+" || op == "-") {
    const bool overflow =
        op == "+" ? __builtin_add_overflow(a, b, &out) : __builtin_sub_overflow(a, b, &out);
    if (overflow) fail_overflow();
    return Value::integer(out);
  }
  if (op == "*") return Value::integer(multiply(a, b));
  if (op == "//") return Value::integer(floor_divide(a, b));
  if (op == "%") {
    if (b == 0) fail("A number is divided by zero.");
    if (b == -1) return Value::integer(0);
    const int64_t r = a % b;
    return Value::integer(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  }
  if (op == "/") {
    if (b == 0) fail("A number is divided by zero.");
    return Value::real(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b < 0) {
    if (a == 0) fail("A number is divided by zero.");
    return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return Value::integer(power(a, b));
}

Value real_arithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) fail("A number is divided by zero.");
    const double result = std::pow(a, b);
    if (std::isnan(result) && a < 0 && !std::isnan(b)) fail("The power is a complex number.");
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("The power is too large.");
    return Value::real(result);
  }
  if (b == 0) fail("A number is divided by zero.");
  if (op == "/") return Value::real(a / b);
  // As Python computes both, so that the signs of zeros agree.
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == "%") return Value::real(remainder);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double whole = std::floor(quotient);
  return Value::real(quotient - whole > 0.5 ? whole + 1 : whole);
}

Value repeat(Runtime& runtime, const Value& sequence, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (sequence.is_string()) {
    const MarkedText& text = sequence.as_text();
    if (text.empty()) return sequence;
    runtime.budget.step(count);
    runtime.budget.bytes(static_cast<int64_t>(text.size()) * count);
    MarkedText out;
    for (int64_t i = 0; i < count; ++i) out.append(text);
    return Value::string(std::move(out));
  }
  const List& list = sequence.as_list();
  std::vector<Value> items;
  if (!list.items.empty()) {
    runtime.budget.step(count);
    runtime.budget.bytes(static_cast<int64_t>(list.items.size() * sizeof(Value)) * count);
    for (int64_t i = 0; i < count; ++i)
      items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return list.tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) {
    fail("'" + object.undefined_name() + "' is undefined and has no attribute '" +
         std::string(name) + "'.");
  }
  if (has_method(object, name)) {
    auto method = std::make_shared<Callable>();
    method->kind = Callable::Kind::kMethod;
    method->name = name;
    method->self = object;
    runtime.budget.bytes(sizeof(Callable));
    return Value::of(std::shared_ptr<const Callable>(std::move(method)));
  }
  if (is_left_out(object, name)) {
    fail("'" + std::string(name) + "' of a " + object.type_name() + " is not supported.");
  }
  if (const Iterable* i = object.as_iterable(); i != nullptr && i->kind == Iterable::Kind::kRange) {
    if (name == "start") return Value::integer(i->start);
    if (name == "stop") return Value::integer(i->stop);
    if (name == "step") return Value::integer(i->step);
  }
  const Value* found = nullptr;
  if (object.is_dict()) found = object.as_dict().find(name);
  if (const Namespace* n = object.as_namespace()) found = n->members.find(name);
  if (const Loop* loop = object.as_loop()) return loop_attribute(*loop, name);
  if (const Cycler* cycler = object.as_cycler(); cycler != nullptr && !cycler->joiner) {
    if (name == "current") return cycler->items[cycler->at];
    if (name == "pos") return Value::integer(static_cast<int64_t>(cycler->at));
  }
  if (object.is_list() && object.as_list().group) {
    if (name == "grouper") return object.as_list().items[0];
    if (name == "list") return object.as_list().items[1];
  }
  return found != nullptr ? *found : Value::undefined(name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) {
    fail("'" + object.undefined_name() + "' is undefined and has no items.");
  }
  if (object.is_dict()) {
    if (const Value* found = object.as_dict().find(key)) return *found;
  }
  if (key.is_bool() || key.is_integer()) {
    const Iterable* i = object.as_iterable();
    const bool range = i != nullptr && i->kind == Iterable::Kind::kRange;
    if (object.is_list() || range) {
      const auto& items = range ? i->items : object.as_list().items;
      const auto n = static_cast<int64_t>(items.size());
      const int64_t at = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
      if (at >= 0 && at < n) return items[at];
    } else if (object.is_string()) {
      runtime.budget.step(static_cast<int64_t>(object.as_text().size() / 16));
      const std::vector<size_t> offsets = character_offsets(object.as_bytes());
      const auto n = static_cast<int64_t>(offsets.size()) - 1;
      const int64_t at = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
      if (at >= 0 && at < n) {
        return Value::string(object.as_text().substr(offsets[at], offsets[at + 1]));
      }
    }
    return Value::undefined(std::to_string(key.as_integer()));
  }
  if (key.is_string()) return get_attribute(runtime, object, key.as_bytes());
  return Value::undefined("item");
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                const Value& step) {
  const Iterable* iterable = object.as_iterable();
  const bool range = iterable != nullptr && iterable->kind == Iterable::Kind::kRange;
  if (!object.is_string() && !object.is_list() && !range) {
    fail("A value of type " + object.type_name() + " cannot be sliced.");
  }
  const auto integer = [](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    if (!v.is_bool() && !v.is_integer()) fail("The borders of a slice must be integers.");
    return v.as_integer();
  };
  std::vector<size_t> offsets;
  if (object.is_string()) {
    runtime.budget.bytes(static_cast<int64_t>(object.as_text().size()));
    offsets = character_offsets(object.as_bytes());
  }
  const auto n = object.is_string() ? static_cast<int64_t>(offsets.size()) - 1
                                    : static_cast<int64_t>(length(object));
  const int64_t by = integer(step, 1);
  if (by == 0) fail("The step of a slice cannot be zero.");
  const int64_t lowest = by > 0 ? 0 : -1;
  const int64_t highest = by > 0 ? n : n - 1;
  const auto border = [&](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    const int64_t at = integer(v, 0);
    return std::clamp(at < 0 ? at + n : at, lowest, highest);
  };
  int64_t from = border(start, by > 0 ? 0 : n - 1);
  const int64_t to = border(stop, by > 0 ? n : -1);
  if (range) {
    const auto at = [&](int64_t i) {
      return integer_arithmetic("+", iterable->start, multiply(i, iterable->step)).as_integer();
    };
    return Value::range(at(from), at(to), multiply(iterable->step, by), runtime.budget);
  }
  MarkedText text;
  std::vector<Value> items;
  if (object.is_string() && by == 1) {
    if (from < to) text.append(object.as_text(), offsets[from], offsets[to]);
    return Value::string(std::move(text));
  }
  while (by > 0 ? from < to : from > to) {
    runtime.budget.bytes(sizeof(Value));
    if (object.is_string()) {
      text.append(object.as_text(), offsets[from], offsets[from + 1]);
    } else {
      items.push_back(object.as_list().items[from]);
    }
    if (__builtin_add_overflow(from, by, &from)) break;
  }
  if (object.is_string()) return Value::string(std::move(text));
  return object.as_list().tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value arithmetic(Runtime& runtime, std::string_view op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_real() || right.is_real()) {
      return real_arithmetic(op, left.as_real(), right.as_real());
    }
    return integer_arithmetic(op, left.as_integer(), right.as_integer());
  }
  if (op == "+" && left.is_string() && right.is_string()) {
    runtime.budget.bytes(static_cast<int64_t>(left.as_text().size() + right.as_text().size()));
    MarkedText out = left.as_text();
    out.append(right.as_text());
    return Value::string(std::move(out));
  }
  if (op == "+" && left.is_list() && right.is_list() &&
      left.as_list().tuple == right.as_list().tuple) {
    std::vector<Value> items = elements(left, runtime.budget);
    const std::vector<Value> more = elements(right, runtime.budget);
    items.insert(items.end(), more.begin(), more.end());
    return left.as_list().tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  const auto is_count = [](const Value& v) { return v.is_bool() || v.is_integer(); };
  const auto is_sequence = [](const Value& v) { return v.is_string() || v.is_list(); };
  if (op == "*" && is_sequence(left) && is_count(right)) {
    return repeat(runtime, left, right.as_integer());
  }
  if (op == "*" && is_count(left) && is_sequence(right)) {
    return repeat(runtime, right, left.as_integer());
  }
  if (op == "%" && left.is_string()) {
    return Value::string(format_percent(runtime, left.as_text(), right));
  }
  for (const Value* v : {&left, &right}) {
    if (v->is_undefined()) fail("'" + v->undefined_name() + "' is undefined.");
  }
  fail("The operator " + std::string(op) + " does not work on a " + left.type_name() +
       " and one of type " + right.type_name() + ".");
}

}  // namespace chimere::text::jinja
