#include "serving/output_constraint.h"

#include <string>
#include <string_view>
#include <utility>

#include "constraints/reasoning_before.h"
#include "constraints/tool_calls.h"

namespace chimere::serving {
namespace {

constexpr std::string_view kJsonObject = R"({"type":"object"})";

constraints::ToolCallsSpec tool_calls_spec(const protocol::ChatRequest& request,
                                           const text::ChatFormat& format) {
  using Kind = protocol::ToolChoice::Kind;
  using Choice = constraints::ToolCallsSpec::Choice;
  constraints::ToolCallsSpec out;
  out.tools = request.tools;
  if (request.tool_choice.kind == Kind::kRequired) out.choice = Choice::kRequired;
  if (request.tool_choice.kind == Kind::kNamed) out.choice = Choice::kNamed;
  out.named = request.tool_choice.name;
  out.parallel = request.parallel_tool_calls;
  out.excluded = format.turn_tags;
  for (const text::ReasoningTags::Tag* tag : {&format.reasoning.open, &format.reasoning.close}) {
    if (!tag->text.empty()) out.excluded.push_back(tag->text);
  }
  using FormatKind = protocol::OutputFormat::Kind;
  if (request.format.kind == FormatKind::kJsonObject) out.content_schema = kJsonObject;
  if (request.format.kind == FormatKind::kJsonSchema) out.content_schema = request.format.text;
  return out;
}

}  // namespace

std::optional<constraints::ConstraintSpec> format_constraint(const protocol::OutputFormat& format) {
  using Kind = protocol::OutputFormat::Kind;
  constraints::ConstraintSpec out;
  switch (format.kind) {
    case Kind::kText:
      return std::nullopt;
    case Kind::kJsonObject:
      out.content = constraints::JsonObjectSpec{};
      break;
    case Kind::kJsonSchema:
      out.content = constraints::JsonSchemaSpec{format.text};
      break;
    case Kind::kRegex:
      out.content = constraints::RegexSpec{format.text};
      break;
    case Kind::kGrammar:
      out.content = constraints::GbnfSpec{format.text};
      break;
    case Kind::kChoice:
      out.content = constraints::ChoicesSpec{format.choices};
      break;
  }
  return out;
}

Result<std::optional<constraints::ConstraintSpec>> output_constraint(
    const ServedModel& model, const protocol::ChatRequest& request, const ChatPrompt& prompt) {
  using FormatKind = protocol::OutputFormat::Kind;
  const bool tools =
      !request.tools.empty() && request.tool_choice.kind != protocol::ToolChoice::Kind::kNone;
  const text::ChatFormat& format = model.prompt_template->format();
  const text::ToolFormat& calls = format.calls;
  const bool harmony = calls.style == text::ToolFormat::Style::kHarmony;
  const bool json = request.format.kind == FormatKind::kJsonObject ||
                    request.format.kind == FormatKind::kJsonSchema;
  constraints::ConstraintSpec spec;
  if (tools) {
    if (request.format.kind != FormatKind::kText && !json) {
      return unsupported("'" + request.format.field +
                         "' and 'tools' cannot be combined; beside calls, the content can be text "
                         "or JSON.");
    }
    constraints::ToolCallsSpec wanted = tool_calls_spec(request, format);
    wanted.opened = !prompt.opened.empty();
    CHIMERE_TRY(spec, constraints::tool_calls_constraint(calls, wanted, model.tokenizer));
  } else if (harmony && json) {
    // The JSON stands in the final channel.
    constraints::ToolCallsSpec content;
    content.content_schema =
        request.format.kind == FormatKind::kJsonSchema ? request.format.text : kJsonObject;
    CHIMERE_TRY(spec, constraints::tool_calls_constraint(calls, content, model.tokenizer));
  } else {
    auto plain = format_constraint(request.format);
    if (!plain) return plain;
    spec = *std::move(plain);
  }
  // gpt-oss's reasoning is a part of the constraint on its messages.
  const bool channels = harmony && (tools || json);
  if (!channels) {
    spec.reasoning = constraints::reasoning_before(format.reasoning, prompt.start,
                                                   request.settings.get(settings::kReasoning));
  }
  return std::optional(std::move(spec));
}

}  // namespace chimere::serving
