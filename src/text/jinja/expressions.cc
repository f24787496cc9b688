// The evaluator's part for expressions.
#include <algorithm>

#include "text/jinja/evaluator.h"

namespace chimere::text::jinja {

using Kind = Expression::Kind;

Value Evaluator::evaluate(const Expression& e, const ScopePtr& scope) {
  const Budget::Level level(runtime_.budget);
  runtime_.budget.step();
  const auto child = [&](size_t i) { return evaluate(*e.children[i], scope); };
  switch (e.kind) {
    case Kind::kConstant:
      return e.constant;
    case Kind::kName:
      return lookup(e.name, scope);
    case Kind::kList:
      return Value::list(evaluate_all(e, scope));
    case Kind::kTuple:
      return Value::tuple(evaluate_all(e, scope));
    case Kind::kDict:
      return evaluate_dict(e, scope);
    case Kind::kNot:
      return Value::boolean(!child(0).truth());
    case Kind::kNegate:
    case Kind::kPlus:
      return evaluate_sign(e, scope);
    case Kind::kArithmetic: {
      const Value left = child(0);
      return arithmetic(runtime_, e.name, left, child(1));
    }
    case Kind::kConcat:
      return evaluate_concat(e, scope);
    case Kind::kAnd: {
      const Value left = child(0);
      return left.truth() ? child(1) : left;
    }
    case Kind::kOr: {
      const Value left = child(0);
      return left.truth() ? left : child(1);
    }
    case Kind::kCompare:
      return evaluate_comparison(e, scope);
    case Kind::kConditional:
      return evaluate_conditional(e, scope);
    case Kind::kAttribute:
      return get_attribute(runtime_, child(0), e.name);
    case Kind::kItem: {
      const Value object = child(0);
      return get_item(runtime_, object, child(1));
    }
    case Kind::kSlice:
      return evaluate_slice(e, scope);
    case Kind::kCall:
      return evaluate_call(e, scope, nullptr);
    case Kind::kFilter:
      return evaluate_filter(e, scope, nullptr);
    case Kind::kTest:
      return evaluate_test(e, scope);
  }
  return {};
}

Value Evaluator::lookup(const std::string& name, const ScopePtr& scope) const {
  for (const Scope* s = scope.get(); s != nullptr; s = s->parent.get()) {
    const auto it = s->names.find(name);
    if (it != s->names.end()) return it->second;
  }
  if (name != "namespace" && !is_global_function(name)) return Value::undefined(name);
  auto function = std::make_shared<Callable>();
  function->name = name;
  return Value::of(std::shared_ptr<const Callable>(std::move(function)));
}

std::vector<Value> Evaluator::evaluate_all(const Expression& e, const ScopePtr& scope) {
  std::vector<Value> values;
  runtime_.budget.bytes(static_cast<int64_t>(e.children.size() * sizeof(Value)));
  values.reserve(e.children.size());
  for (const ExpressionPtr& child : e.children) values.push_back(evaluate(*child, scope));
  return values;
}

Value Evaluator::evaluate_dict(const Expression& e, const ScopePtr& scope) {
  Dict dict;
  for (size_t i = 0; i < e.children.size(); i += 2) {
    runtime_.budget.bytes(2 * sizeof(Value));
    const Value key = evaluate(*e.children[i], scope);
    dict.set(key, evaluate(*e.children[i + 1], scope));
  }
  return Value::dict(std::move(dict));
}

Value Evaluator::evaluate_sign(const Expression& e, const ScopePtr& scope) {
  const Value v = evaluate(*e.children[0], scope);
  if (!v.is_number()) fail("A value of type " + v.type_name() + " has no sign.");
  if (v.is_real()) return Value::real(e.kind == Kind::kNegate ? -v.as_real() : v.as_real());
  return arithmetic(runtime_, e.kind == Kind::kNegate ? "-" : "+", Value::integer(0), v);
}

Value Evaluator::evaluate_concat(const Expression& e, const ScopePtr& scope) {
  MarkedText out;
  for (const ExpressionPtr& child : e.children) {
    write_str(evaluate(*child, scope), runtime_.budget, out);
  }
  return Value::string(std::move(out));
}

Value Evaluator::evaluate_comparison(const Expression& e, const ScopePtr& scope) {
  Value left = evaluate(*e.children[0], scope);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    const Value right = evaluate(*e.children[i + 1], scope);
    const std::string& op = e.operators[i];
    Budget& budget = runtime_.budget;
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equal(left, right, budget) == (op == "==");
    } else if (op == "in" || op == "notin") {
      holds = contains(right, left, budget) == (op == "in");
    } else {
      const int order = compare(left, right, budget);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Evaluator::evaluate_conditional(const Expression& e, const ScopePtr& scope) {
  if (evaluate(*e.children[1], scope).truth()) return evaluate(*e.children[0], scope);
  if (e.children[2] != nullptr) return evaluate(*e.children[2], scope);
  return Value::undefined("the value of a conditional without else");
}

Value Evaluator::evaluate_slice(const Expression& e, const ScopePtr& scope) {
  const auto part = [&](size_t i) {
    return e.children[i] == nullptr ? Value::none() : evaluate(*e.children[i], scope);
  };
  const Value object = part(0);
  const Value start = part(1);
  const Value stop = part(2);
  return get_slice(runtime_, object, start, stop, part(3));
}

Arguments Evaluator::evaluate_arguments(const Expression& e, const ScopePtr& scope) {
  Arguments arguments;
  runtime_.budget.bytes(static_cast<int64_t>((e.children.size() + e.named.size()) * sizeof(Value)));
  for (size_t i = 1; i < e.children.size(); ++i) {
    arguments.positional.push_back(evaluate(*e.children[i], scope));
  }
  for (const auto& [name, value] : e.named) {
    arguments.named.emplace_back(name, evaluate(*value, scope));
  }
  if (e.unpack_list != nullptr) {
    const std::vector<Value> more = elements(evaluate(*e.unpack_list, scope), runtime_.budget);
    arguments.positional.insert(arguments.positional.end(), more.begin(), more.end());
  }
  if (e.unpack_dict != nullptr) unpack(evaluate(*e.unpack_dict, scope), arguments);
  return arguments;
}

/// Adds the entries of a dictionary (**kwargs).
void Evaluator::unpack(const Value& entries, Arguments& arguments) {
  if (!entries.is_dict()) fail("Only a dictionary can be unpacked with **.");
  for (const auto& [key, value] : entries.as_dict().entries()) {
    if (!key.is_string()) fail("The names of arguments must be strings.");
    const std::string& name = key.as_bytes();
    if (std::ranges::any_of(arguments.named, [&](const auto& n) { return n.first == name; })) {
      fail("The argument '" + name + "' is given twice.");
    }
    runtime_.budget.bytes(static_cast<int64_t>(name.size() + sizeof(Value)));
    arguments.named.emplace_back(name, value);
  }
}

Value Evaluator::evaluate_call(const Expression& e, const ScopePtr& scope, const Value* caller) {
  const Value function = evaluate(*e.children[0], scope);
  Arguments arguments = evaluate_arguments(e, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call(function, arguments);
}

Value Evaluator::call(const Value& function, const Arguments& arguments) {
  if (const Loop* loop = function.as_loop()) return call_loop(*loop, arguments);
  if (Cycler* joiner = function.as_cycler(); joiner != nullptr && joiner->joiner) {
    check_arguments("joiner", "", arguments);
    return joiner->at++ == 0 ? Value::string("", true) : joiner->items[0];
  }
  const Callable* callable = function.as_callable();
  if (callable == nullptr) {
    if (function.is_undefined()) {
      if (changes_value(function.undefined_name())) {
        fail("'" + function.undefined_name() +
             "' would change a value, which templates must not do.");
      }
      fail("'" + function.undefined_name() + "' is undefined and cannot be called.");
    }
    fail("A value of type " + function.type_name() + " cannot be called.");
  }
  switch (callable->kind) {
    case Callable::Kind::kMethod:
      return call_method(runtime_, callable->self, callable->name, arguments);
    case Callable::Kind::kGlobal:
      return callable->name == "namespace" ? make_namespace(arguments)
                                           : call_global(runtime_, callable->name, arguments);
    case Callable::Kind::kMacro:
    case Callable::Kind::kCaller:
      return call_macro(*callable, arguments);
  }
  return {};
}

Value Evaluator::make_namespace(const Arguments& arguments) {
  auto created = std::make_shared<Namespace>();
  runtime_.budget.bytes(sizeof(Namespace));
  created->members = make_dict(runtime_, arguments);
  namespaces_.push_back(created);
  return Value::of(std::move(created));
}

Value Evaluator::evaluate_filter(const Expression& e, const ScopePtr& scope,
                                 const Value* block_input) {
  const Budget::Level level(runtime_.budget);
  const Expression* inner_filter = e.children[0].get();
  Value input;
  if (inner_filter == nullptr) {
    if (block_input != nullptr) input = *block_input;
  } else if (block_input != nullptr) {
    input = evaluate_filter(*inner_filter, scope, block_input);
  } else {
    input = evaluate(*inner_filter, scope);
  }
  return apply_filter(runtime_, e.name, input, evaluate_arguments(e, scope));
}

Value Evaluator::evaluate_test(const Expression& e, const ScopePtr& scope) {
  const Value input = evaluate(*e.children[0], scope);
  return Value::boolean(apply_test(runtime_, e.name, input, evaluate_arguments(e, scope)));
}

}  // namespace chimere::text::jinja
