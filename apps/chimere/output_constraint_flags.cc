#include "output_constraint_flags.h"

#include <string_view>
#include <utility>
#include <vector>

#include "runtime/constraint_factory.h"

namespace chimere::app {
namespace {

std::vector<std::string> split_choices(std::string_view text) {
  std::vector<std::string> choices;
  while (true) {
    const size_t comma = text.find(',');
    choices.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return choices;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

void add_output_constraint(Command& command, OutputConstraintFlags& flags) {
  const Option schema = command.option("--json-schema", flags.json_schema,
                                       "FILE with a JSON Schema; the answer is a valid document");
  const Option grammar = command.option("--grammar", flags.grammar,
                                        "FILE with a grammar in GBNF; the answer is a text of it");
  const Option regex =
      command.option("--regex", flags.regex, "The whole answer matches this regular expression");
  Option choices =
      command.option("--choice", flags.choices, "The answer is one of these texts: A,B,C");
  choices.excludes(schema).excludes(grammar).excludes(regex);
  Option(regex).excludes(schema).excludes(grammar);
  Option(grammar).excludes(schema);
}

Result<std::optional<constraints::ConstraintSpec>> constraint_spec(
    const OutputConstraintFlags& flags) {
  std::optional<constraints::ConstraintSpec> spec;
  if (flags.json_schema) {
    CHIMERE_TRY(std::string schema, read_file(*flags.json_schema));
    spec.emplace(constraints::JsonSchemaSpec{std::move(schema)}, std::nullopt);
  } else if (flags.grammar) {
    CHIMERE_TRY(std::string grammar, read_file(*flags.grammar));
    spec.emplace(constraints::GbnfSpec{std::move(grammar)}, std::nullopt);
  } else if (flags.regex) {
    spec.emplace(constraints::RegexSpec{*flags.regex}, std::nullopt);
  } else if (flags.choices) {
    spec.emplace(constraints::ChoicesSpec{split_choices(*flags.choices)}, std::nullopt);
  }
  return spec;
}

Result<std::shared_ptr<constraints::Constraint>> compile(
    std::optional<constraints::ConstraintSpec> spec, const runtime::LoadedModel& loaded,
    text::ReasoningSplitter::Start start) {
  using Start = text::ReasoningSplitter::Start;
  if (!spec) return std::shared_ptr<constraints::Constraint>();
  if (start != Start::kContent) {
    spec->reasoning = runtime::reasoning_spec(*loaded.tokenizer, start == Start::kThinking);
  }
  return runtime::ConstraintFactory(*loaded.tokenizer, loaded.model->n_vocab()).compile(*spec);
}

}  // namespace chimere::app
