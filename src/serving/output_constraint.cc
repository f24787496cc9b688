#include "serving/output_constraint.h"

#include <string>
#include <string_view>
#include <utility>

#include "constraints/tool_calls.h"

namespace chimere::serving {
namespace {

constexpr std::string_view kJsonObject = R"({"type":"object"})";

constraints::Delimiter reasoning_tag(const text::Tokenizer& tokenizer, std::string_view tag) {
  constraints::Delimiter out;
  out.text = tag;
  const int32_t token = tokenizer.find(tag);
  if (token >= 0 && tokenizer.is_control(token)) out.token = token;
  return out;
}

constraints::ToolCallsSpec tool_calls_spec(const protocol::ChatRequest& request) {
  using Kind = protocol::ToolChoice::Kind;
  using Choice = constraints::ToolCallsSpec::Choice;
  constraints::ToolCallsSpec out;
  for (const protocol::Tool& tool : request.tools) {
    out.tools.push_back({tool.name, tool.parameters, tool.strict});
  }
  if (request.tool_choice.kind == Kind::kRequired) out.choice = Choice::kRequired;
  if (request.tool_choice.kind == Kind::kNamed) out.choice = Choice::kNamed;
  out.named = request.tool_choice.name;
  out.parallel = request.parallel_tool_calls;
  const protocol::ResponseFormat& format = request.response_format;
  if (format.kind == protocol::ResponseFormat::Kind::kJsonObject) out.content_schema = kJsonObject;
  if (format.kind == protocol::ResponseFormat::Kind::kJsonSchema) {
    out.content_schema = format.schema;
  }
  return out;
}

}  // namespace

Result<std::optional<constraints::ConstraintSpec>> output_constraint(
    const ServedModel& model, const protocol::ChatRequest& request,
    protocol::ReasoningSplitter::Start start) {
  using Start = protocol::ReasoningSplitter::Start;
  using FormatKind = protocol::ResponseFormat::Kind;
  const bool tools =
      !request.tools.empty() && request.tool_choice.kind != protocol::ToolChoice::Kind::kNone;
  constraints::ConstraintSpec spec;
  if (tools) {
    CHIMERE_TRY(spec,
                constraints::tool_calls_constraint(model.prompt_template->tool_format(),
                                                   tool_calls_spec(request), model.tokenizer));
  } else if (request.response_format.kind == FormatKind::kJsonObject) {
    spec.content = constraints::JsonObjectSpec{};
  } else if (request.response_format.kind == FormatKind::kJsonSchema) {
    spec.content = constraints::JsonSchemaSpec{request.response_format.schema};
  } else {
    return std::optional<constraints::ConstraintSpec>();
  }
  // gpt-oss's reasoning is a part of the constraint on its messages.
  const bool channels =
      tools && model.prompt_template->tool_format().style == text::ToolFormat::Style::kHarmony;
  const bool may_think =
      start == Start::kThinking ||
      (start == Start::kMayThink && request.settings.get(settings::kReasoning) != "none");
  if (may_think && !channels) {
    spec.reasoning = constraints::ReasoningSpec{reasoning_tag(model.tokenizer, "<think>"),
                                                reasoning_tag(model.tokenizer, "</think>"),
                                                start == Start::kThinking};
  }
  return std::optional(std::move(spec));
}

}  // namespace chimere::serving
