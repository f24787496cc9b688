// Statements. Expressions are in expressions.cc.
#include "text/jinja/evaluator.h"

#include <algorithm>

namespace chimere::text::jinja {

Evaluator::~Evaluator() {
  for (const auto& n : namespaces_) n->members = Dict();
  for (const ScopePtr& scope : macro_scopes_) scope->names.clear();
}

ScopePtr Evaluator::inner(const ScopePtr& scope) {
  auto created = std::make_shared<Scope>();
  created->parent = scope;
  return created;
}

MarkedText Evaluator::render(const Block& block, const Dict& variables) {
  auto globals = std::make_shared<Scope>();
  for (const auto& [name, value] : variables.entries()) {
    if (name.is_string()) globals->names[name.as_bytes()] = value;
  }
  MarkedText out;
  out_ = &out;
  run(block, inner(globals));
  return out;
}

void Evaluator::write(const MarkedText& text) {
  runtime_.budget.bytes(static_cast<int64_t>(text.size()));
  out_->append(text);
  runtime_.budget.output(static_cast<int64_t>(out_->size()));
}

MarkedText Evaluator::capture(const Block& block, const ScopePtr& scope) {
  MarkedText captured;
  MarkedText* outer = std::exchange(out_, &captured);
  try {
    run(block, inner(scope));
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return captured;
}

Evaluator::Flow Evaluator::run(const Block& block, const ScopePtr& scope) {
  for (const Statement& statement : block) {
    const Flow flow = run(statement, scope);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::run(const Statement& statement, const ScopePtr& scope) {
  const Budget::Level level(runtime_.budget);
  runtime_.budget.step();
  line_ = statement.line;
  const auto& expressions = statement.expressions;
  switch (statement.kind) {
    case Statement::Kind::kText:
      write(statement.text);
      break;
    case Statement::Kind::kOutput:
      write(to_text(evaluate(*expressions[0], scope), runtime_.budget));
      break;
    case Statement::Kind::kIf:
      return run_if(statement, scope);
    case Statement::Kind::kFor:
      return run_for(statement, scope, evaluate(*expressions[1], scope), 1);
    case Statement::Kind::kSet:
      assign(*expressions[0], evaluate(*expressions[1], scope), scope);
      break;
    case Statement::Kind::kSetBlock: {
      Value value = Value::string(capture(statement.blocks[0], scope));
      if (expressions[1] != nullptr) value = evaluate_filter(*expressions[1], scope, &value);
      assign(*expressions[0], value, scope);
      break;
    }
    case Statement::Kind::kMacro:
      scope->names[statement.name] = make_macro(statement, Callable::Kind::kMacro, scope);
      break;
    case Statement::Kind::kCallBlock:
      run_call_block(statement, scope);
      break;
    case Statement::Kind::kFilter: {
      const Value body = Value::string(capture(statement.blocks[0], scope));
      write(to_text(evaluate_filter(*expressions[0], scope, &body), runtime_.budget));
      break;
    }
    case Statement::Kind::kWith:
      return run_with(statement, scope);
    case Statement::Kind::kScope:
      return run(statement.blocks[0], inner(scope));
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::run_if(const Statement& statement, const ScopePtr& scope) {
  size_t branch = 0;
  while (branch < statement.expressions.size() &&
         !evaluate(*statement.expressions[branch], scope).truth()) {
    ++branch;
  }
  return run(statement.blocks[branch], scope);
}

/// The items of a loop with a condition, as in Jinja2: tuples of the targets' values.
Value Evaluator::unpacked(const Expression& target, const Value& item) {
  if (target.kind != Expression::Kind::kTuple) return item;
  std::vector<Value> parts = elements(item, runtime_.budget);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i] = unpacked(*target.children[i], parts[i]);
  }
  return Value::tuple(std::move(parts));
}

Evaluator::Flow Evaluator::run_for(const Statement& statement, const ScopePtr& scope,
                                   const Value& iterable, int depth) {
  const Expression& target = *statement.expressions[0];
  const ExpressionPtr& condition = statement.expressions[2];
  auto loop = std::make_shared<Loop>();
  loop->items = elements(iterable, runtime_.budget, &loop->error);
  loop->depth = depth;
  if (statement.recursive) {
    loop->definition = &statement;
    loop->scope = scope;
  }
  if (condition != nullptr) {
    std::vector<Value> kept;
    for (const Value& item : loop->items) {
      runtime_.budget.step();
      const ScopePtr test = inner(scope);
      assign(target, item, test);
      if (evaluate(*condition, test).truth()) kept.push_back(unpacked(target, item));
    }
    loop->items = std::move(kept);
  }
  bool completed = false;
  for (; loop->index < loop->items.size(); ++loop->index) {
    runtime_.budget.step();
    const ScopePtr body = inner(scope);
    body->names["loop"] = Value::of(loop);
    assign(target, loop->items[loop->index], body);
    const Flow flow = run(statement.blocks[0], body);
    completed = completed || flow == Flow::kNormal;
    if (flow == Flow::kBreak) break;
  }
  if (loop->index == loop->items.size() && !loop->error.empty()) fail(loop->error);
  // As in Jinja2, rounds that ended early do not count.
  return completed ? Flow::kNormal : run(statement.blocks[1], inner(scope));
}

Value Evaluator::call_loop(const Loop& loop, const Arguments& arguments) {
  if (loop.definition == nullptr) fail("The loop is not recursive and cannot be called.");
  const Budget::Level level(runtime_.budget);
  MarkedText captured;
  MarkedText* outer = std::exchange(out_, &captured);
  const int line = line_;
  try {
    // The loop's data may be freed while its body runs, so copy what is needed.
    const ScopePtr scope = loop.scope;
    run_for(*loop.definition, scope, arguments.require(0, "iterable", "loop"), loop.depth + 1);
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  line_ = line;
  return Value::string(std::move(captured));
}

Evaluator::Flow Evaluator::run_with(const Statement& statement, const ScopePtr& scope) {
  const ScopePtr body = inner(scope);
  for (size_t i = 0; i < statement.expressions.size(); i += 2) {
    assign(*statement.expressions[i], evaluate(*statement.expressions[i + 1], scope), body);
  }
  return run(statement.blocks[0], body);
}

Value Evaluator::make_macro(const Statement& statement, Callable::Kind kind,
                            const ScopePtr& scope) {
  auto macro = std::make_shared<Callable>();
  macro->kind = kind;
  macro->name = statement.name;
  macro->definition = &statement;
  macro->scope = scope.get();
  runtime_.budget.bytes(sizeof(Callable));
  if (macro_scopes_.empty() || macro_scopes_.back() != scope) macro_scopes_.push_back(scope);
  return Value::of(std::shared_ptr<const Callable>(std::move(macro)));
}

void Evaluator::run_call_block(const Statement& statement, const ScopePtr& scope) {
  const Value caller = make_macro(statement, Callable::Kind::kCaller, scope);
  write(to_text(evaluate_call(*statement.expressions[0], scope, &caller), runtime_.budget));
}

void Evaluator::assign(const Expression& target, const Value& value, const ScopePtr& scope) {
  if (target.kind == Expression::Kind::kName) {
    scope->names[target.name] = value;
    return;
  }
  if (target.kind == Expression::Kind::kAttribute) {
    Namespace* n = lookup(target.children[0]->name, scope).as_namespace();
    if (n == nullptr) fail("Attributes can be set on namespaces only.");
    n->members.set(target.name, value);
    return;
  }
  const std::vector<Value> parts = elements(value, runtime_.budget);
  if (parts.size() != target.children.size()) {
    fail("There are " + std::to_string(parts.size()) + " values for " +
         std::to_string(target.children.size()) + " names.");
  }
  for (size_t i = 0; i < parts.size(); ++i) assign(*target.children[i], parts[i], scope);
}

Value Evaluator::call_macro(const Callable& macro, const Arguments& arguments) {
  const Budget::Level level(runtime_.budget);
  const Statement& definition = *macro.definition;
  // A caller's first expression is the call, its parameters' defaults follow.
  const size_t first = macro.kind == Callable::Kind::kCaller ? 1 : 0;
  auto scope = std::make_shared<Scope>();
  // The definition's scope lives in macro_scopes_.
  scope->parent = ScopePtr(ScopePtr(), macro.scope);
  const auto& names = definition.parameters;
  const std::string& what = macro.name;
  const size_t positional = arguments.positional.size();
  Dict others;
  for (const auto& [name, value] : arguments.named) {
    const auto parameter = std::ranges::find(names, name);
    const bool taken =
        parameter != names.end() && static_cast<size_t>(parameter - names.begin()) >= positional;
    if (taken) {
      scope->names[name] = value;
    } else if (name == "caller" && definition.uses.caller) {
      scope->names["caller"] = value;
    } else if (definition.uses.kwargs) {
      others.set(name, value);
    } else {
      fail(std::string("The macro '")
               .append(what)
               .append("' takes no argument '")
               .append(name)
               .append("'."));
    }
  }
  if (positional > names.size() && !definition.uses.varargs) {
    fail("The macro '" + what + "' takes at most " + std::to_string(names.size()) + " arguments.");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const ExpressionPtr& otherwise = definition.expressions[first + i];
    if (i < positional) {
      scope->names[names[i]] = arguments.positional[i];
    } else if (!scope->names.contains(names[i])) {
      scope->names[names[i]] =
          otherwise != nullptr ? evaluate(*otherwise, scope) : Value::undefined(names[i]);
    }
  }
  if (definition.uses.caller && !scope->names.contains("caller")) {
    scope->names["caller"] = Value::undefined("caller");
  }
  if (definition.uses.varargs) {
    const auto rest = arguments.positional.begin() +
                      static_cast<std::ptrdiff_t>(std::min(names.size(), positional));
    scope->names["varargs"] = Value::tuple(std::vector(rest, arguments.positional.end()));
  }
  if (definition.uses.kwargs) scope->names["kwargs"] = Value::dict(std::move(others));
  const int line = line_;
  MarkedText result = capture(definition.blocks[0], scope);
  line_ = line;
  return Value::string(std::move(result));
}

}  // namespace chimere::text::jinja
