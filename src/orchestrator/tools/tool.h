// Tools that the orchestrator executes for a model.
#ifndef CHIMERE_ORCHESTRATOR_TOOLS_TOOL_H_
#define CHIMERE_ORCHESTRATOR_TOOLS_TOOL_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "orchestrator/passages.h"
#include "protocol/requests.h"

namespace chimere::orchestrator {

/// What a call may do. Fixed by the program and the operator; no text of a model, page, document
/// or tool changes it.
enum class Effect : uint8_t {
  kNone,      ///< computes from its arguments, or reads what the request's owner may read
  kExternal,  ///< changes something, runs code or talks to other programs: needs approval
};

/// On whose behalf a tool is called.
struct ToolContext {
  std::string owner;                     ///< name of the API key, or empty
  std::vector<std::string> collections;  ///< that the request may read
  PassageSource* passages = nullptr;
};

/// Thread-safe.
class Tool {
 public:
  virtual ~Tool() = default;
  /// As the model sees it: name, description, JSON Schema of the arguments.
  virtual const text::Tool& definition() const = 0;
  virtual Effect effect() const { return Effect::kNone; }
  /// `arguments`: JSON text of the model. The result is text for the model. Errors are told to the
  /// model, too.
  virtual Result<std::string> call(const std::string& arguments, const ToolContext& context) = 0;
};

/// Tools by name.
class ToolBox {
 public:
  /// False: there is a tool of that name.
  bool add(std::shared_ptr<Tool> tool);
  Tool* find(std::string_view name) const;
  std::vector<const Tool*> all() const;

 private:
  std::map<std::string, std::shared_ptr<Tool>, std::less<>> tools_;
};

/// calculate, time, search, read and run_code.
std::vector<std::shared_ptr<Tool>> built_in_tools();

/// run_code: a program in Python or the shell, in a sandbox without network and files. It has
/// effects: a pipeline must approve of it.
std::shared_ptr<Tool> run_code_tool();

/// The value of an arithmetic expression: + - * / % ^, parentheses, sqrt, abs, floor, ceil, round,
/// ln, log10, exp, sin, cos, tan, min, max, pi and e. Errors: kInvalidArgument with the position.
Result<double> evaluate(std::string_view expression);

/// What a pipeline allows of the tools, decided before the model says anything.
class ToolPolicy {
 public:
  ToolPolicy(std::vector<std::string> allowed, std::vector<std::string> approved)
      : allowed_(std::move(allowed)), approved_(std::move(approved)) {}
  /// Why a call is refused; empty: it may run.
  std::string refusal(const ToolBox& tools, std::string_view name) const;
  /// The tools that the model is shown: those that may run.
  std::vector<text::Tool> offered(const ToolBox& tools) const;

 private:
  const std::vector<std::string> allowed_;
  const std::vector<std::string> approved_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_TOOLS_TOOL_H_
