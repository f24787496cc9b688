// What a generation with tools may look like, as a constraint.
#ifndef CHIMERE_CONSTRAINTS_TOOL_CALLS_H_
#define CHIMERE_CONSTRAINTS_TOOL_CALLS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "constraints/constraint.h"
#include "text/conversation.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace chimere::constraints {

struct ToolCallsSpec {
  enum class Choice {
    kAuto,      ///< text, calls, or text and then calls
    kRequired,  ///< at least one call, and no text
    kNamed,     ///< one call of the tool `named`, and no text
  };
  std::vector<text::Tool> tools;  ///< at least one; with kHarmony and kAuto also none
  Choice choice = Choice::kAuto;
  std::string named;
  bool parallel = true;
  /// Of kAuto: a JSON Schema for the content of a generation without calls; empty: any text.
  std::string content_schema;
  /// Of kHarmony: the prompt ends inside a message of the channel `final`, which the content
  /// continues; else after the role of the first message. Without `content_schema`.
  bool opened = false;
  std::vector<std::string> excluded = {};  ///< texts that no text beside calls contains: tags
};

/// The content of a generation with tools: whatever begins like a call is one of a known tool, as
/// the format writes it, with arguments that are an object in JSON. They are valid under the
/// tool's schema if it is strict or the choice is not kAuto; a schema that lists properties and
/// says nothing of others allows no others. Tagged parameters come in the
/// schema's order then.
///
/// Errors: kInvalidArgument (a schema that is not one of an object), kUnsupported (keywords beside
/// `properties` and `required` at the top of the schema of a strict tool whose parameters are
/// tagged), with the tool's name. Schemas are compiled by Constraint::compile().
Result<ConstraintSpec> tool_calls_constraint(const text::ToolFormat& format,
                                             const ToolCallsSpec& spec,
                                             const text::Tokenizer& tokenizer);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_TOOL_CALLS_H_
