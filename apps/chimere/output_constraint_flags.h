// The flags that constrain what the model writes.
#ifndef CHIMERE_APPS_CHIMERE_OUTPUT_CONSTRAINT_FLAGS_H_
#define CHIMERE_APPS_CHIMERE_OUTPUT_CONSTRAINT_FLAGS_H_

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "command.h"
#include "constraints/constraint.h"
#include "runtime/loaded_model.h"

namespace chimere::app {

/// At most one of them is given.
struct OutputConstraintFlags {
  std::optional<std::string> json_schema;  ///< path, or the schema itself
  std::optional<std::string> grammar;      ///< path, or the grammar itself
  std::optional<std::string> regex;
  std::optional<std::string> choices;  ///< separated by commas
};

void add_output_constraint(Command& command, OutputConstraintFlags& flags);

/// Nothing without flags. Errors: kNotFound, kIo (a file cannot be read).
Result<std::optional<constraints::ConstraintSpec>> constraint_spec(
    const OutputConstraintFlags& flags);

/// nullptr without `spec`. `reasoning`: what the generation may write before, which is never
/// constrained (constraints::reasoning_before()). Errors: those of Constraint::compile().
Result<std::shared_ptr<constraints::Constraint>> compile(
    std::optional<constraints::ConstraintSpec> spec, const runtime::LoadedModel& loaded,
    std::optional<constraints::ReasoningSpec> reasoning);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_OUTPUT_CONSTRAINT_FLAGS_H_
