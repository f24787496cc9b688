#include "output_constraint_flags.h"

#include <algorithm>
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

/// The text of a flag whose value is a file, or the text itself if it could not be a name.
Result<std::string> file_or_text(const std::string& value, bool is_text) {
  return is_text ? Result<std::string>(value) : read_file(value);
}

}  // namespace

void add_output_constraint(Command& command, OutputConstraintFlags& flags) {
  const Option schema =
      command.option("--json-schema", flags.json_schema,
                     "A JSON Schema, or the FILE with one; the answer is JSON that follows it");
  const Option grammar = command.option(
      "--grammar", flags.grammar,
      "A grammar (GBNF, as in llama.cpp), or the FILE with one; the answer follows it");
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
    const size_t first =
        std::min(flags.json_schema->find_first_not_of(" \t\n"), flags.json_schema->size());
    const bool is_text = flags.json_schema->substr(first).starts_with('{');
    CHIMERE_TRY(std::string schema, file_or_text(*flags.json_schema, is_text));
    spec.emplace(constraints::JsonSchemaSpec{std::move(schema)}, std::nullopt);
  } else if (flags.grammar) {
    const bool is_text = flags.grammar->find("::=") != std::string::npos;
    CHIMERE_TRY(std::string grammar, file_or_text(*flags.grammar, is_text));
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
    std::optional<constraints::ReasoningSpec> reasoning) {
  if (!spec) return std::shared_ptr<constraints::Constraint>();
  spec->reasoning = std::move(reasoning);
  return runtime::ConstraintFactory(*loaded.tokenizer, loaded.model->n_vocab()).compile(*spec);
}

}  // namespace chimere::app
