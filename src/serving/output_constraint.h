// What a request asks of the text of its generations.
#ifndef CHIMERE_SERVING_OUTPUT_CONSTRAINT_H_
#define CHIMERE_SERVING_OUTPUT_CONSTRAINT_H_

#include <optional>

#include "base/result.h"
#include "constraints/constraint.h"
#include "protocol/requests.h"
#include "serving/served_model.h"

namespace chimere::serving {

/// The constraint of a format; absent: any text will do.
std::optional<constraints::ConstraintSpec> format_constraint(const protocol::OutputFormat& format);

/// The constraint that follows from a chat's `tools`, `tool_choice`, `parallel_tool_calls` and
/// format; absent: any text will do. `prompt`: what the text continues. Errors: kUnsupported (tools
/// together with a format that is not JSON), those of constraints::tool_calls_constraint().
Result<std::optional<constraints::ConstraintSpec>> output_constraint(
    const ServedModel& model, const protocol::ChatRequest& request, const ChatPrompt& prompt);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_OUTPUT_CONSTRAINT_H_
