// Runs a parsed template.
#ifndef CHIMERE_TEXT_JINJA_EVALUATOR_H_
#define CHIMERE_TEXT_JINJA_EVALUATOR_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace chimere::text::jinja {

/// The names that a block has set. Loops, macros and some other blocks open a new scope.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::unordered_map<std::string, Value> names;
};
using ScopePtr = std::shared_ptr<Scope>;

/// One rendering of one template; fails with TemplateError.
class Evaluator {
 public:
  Evaluator(const Limits& limits, const std::tm& now) : runtime_{Budget(limits), now} {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  MarkedText render(const Block& block, const Dict& variables);
  /// Line of the current statement, for messages.
  int line() const { return line_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  Flow run(const Block& block, const ScopePtr& scope);
  Flow run(const Statement& statement, const ScopePtr& scope);
  Flow run_if(const Statement& statement, const ScopePtr& scope);
  Flow run_for(const Statement& statement, const ScopePtr& scope, const Value& iterable, int depth);
  Value unpacked(const Expression& target, const Value& item);
  /// The output of a recursive loop for another sequence.
  Value call_loop(const Loop& loop, const Arguments& arguments);
  void run_call_block(const Statement& statement, const ScopePtr& scope);
  Flow run_with(const Statement& statement, const ScopePtr& scope);
  Value make_macro(const Statement& statement, Callable::Kind kind, const ScopePtr& scope);
  /// The output of a block, in its own scope.
  MarkedText capture(const Block& block, const ScopePtr& scope);
  void write(const MarkedText& text);
  void assign(const Expression& target, const Value& value, const ScopePtr& scope);
  static ScopePtr inner(const ScopePtr& scope);

  Value evaluate(const Expression& e, const ScopePtr& scope);
  Value lookup(const std::string& name, const ScopePtr& scope) const;
  std::vector<Value> evaluate_all(const Expression& e, const ScopePtr& scope);
  Value evaluate_dict(const Expression& e, const ScopePtr& scope);
  Value evaluate_sign(const Expression& e, const ScopePtr& scope);
  Value evaluate_concat(const Expression& e, const ScopePtr& scope);
  Value evaluate_comparison(const Expression& e, const ScopePtr& scope);
  Value evaluate_conditional(const Expression& e, const ScopePtr& scope);
  Value evaluate_slice(const Expression& e, const ScopePtr& scope);
  Value evaluate_call(const Expression& e, const ScopePtr& scope, const Value* caller);
  Value evaluate_filter(const Expression& e, const ScopePtr& scope, const Value* block_input);
  Value evaluate_test(const Expression& e, const ScopePtr& scope);
  Arguments evaluate_arguments(const Expression& e, const ScopePtr& scope);
  void unpack(const Value& entries, Arguments& arguments);
  Value call(const Value& function, const Arguments& arguments);
  Value call_macro(const Callable& macro, const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);

  Runtime runtime_;
  MarkedText* out_ = nullptr;
  int line_ = 0;
  /// Namespaces and the scopes of macros can refer to each other in circles: they live until the
  /// end.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<ScopePtr> macro_scopes_;
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_EVALUATOR_H_
