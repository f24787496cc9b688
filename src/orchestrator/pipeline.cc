#include "orchestrator/pipeline.h"

#include <algorithm>

#include "base/settings.h"
#include "orchestrator/yaml_section.h"

namespace chimere::orchestrator {
namespace {

const std::vector<std::string> kModes = {"auto", "fast", "quality", "ultra"};
const std::vector<std::string> kWhens = {"auto", "always", "never"};
const std::vector<std::string> kStrategies = {"none", "majority", "best-of-n", "beam", "dvts"};
const std::vector<std::string> kHandOvers = {"last", "all", "none"};

using Params = std::vector<std::pair<std::string, std::string>>;

/// The setting that an API field of this name sets; nullptr: none.
const SettingInfo* setting_of_field(std::string_view field) {
  if (field == "max_tokens") return &settings::kMaxTokens;
  const auto all = settings::all();
  const auto found = std::ranges::find(all, field, &SettingInfo::field);
  return found == all.end() || field.empty() ? nullptr : *found;
}

void read_params(YamlSection& section, YamlProblems& problems, Params& out) {
  section.scalars(
      "params", [&](const std::string& name, const std::string& value, const YAML::Mark& mark) {
        const SettingInfo* const setting = setting_of_field(name);
        if (setting == nullptr) {
          return problems.add(
              mark, "'params." + name + "' is no parameter of a request, such as temperature.");
        }
        Settings scratch;
        const Status status = scratch.set(*setting, value, "params." + name);
        if (!status.ok()) return problems.add(mark, status.error().message);
        out.emplace_back(setting->name, value);
      });
}

void read_thinking(YamlSection& section, std::string& out) {
  section.text("thinking", out);
  if (out.empty() || out == "auto" || out == "none" || out == "low" || out == "medium" ||
      out == "high") {
    return;
  }
  if (out.size() > 7 || out.find_first_not_of("0123456789") != std::string::npos) {
    section.fail("thinking", "must be auto, none, low, medium, high or a number of tokens");
  }
}

void read_constraint(YamlSection& section, protocol::OutputFormat& out) {
  using Kind = protocol::OutputFormat::Kind;
  std::string kind;
  section.choice("type", {"json_object", "json_schema", "regex", "grammar", "choice"},
                 [&](size_t i) {
                   constexpr Kind kKinds[] = {Kind::kJsonObject, Kind::kJsonSchema, Kind::kRegex,
                                              Kind::kGrammar, Kind::kChoice};
                   out.kind = kKinds[i];
                 });
  section.required("type");
  section.text("text", out.text);
  section.texts("choices", out.choices);
  out.field = "constraint";
  const bool text =
      out.kind == Kind::kJsonSchema || out.kind == Kind::kRegex || out.kind == Kind::kGrammar;
  if (text && out.text.empty()) section.fail("text", "is missing: it holds the schema or grammar");
  if (out.kind == Kind::kChoice && out.choices.empty()) section.fail("choices", "is missing");
}

void read_enrich(YamlSection& s, EnrichSpec& out) {
  s.choice("when", kWhens, [&](size_t i) { out.when = static_cast<When>(i); });
  s.texts("collections", out.collections);
  s.number("passages", 1, 32, out.passages);
  s.real("correct", 0, 1, out.correct);
  s.real("incorrect", 0, 1, out.incorrect);
  s.real("confidence", 0, 1, out.confidence);
  s.number("probe_tokens", 0, 256, out.probe_tokens);
  s.choice("quote", kWhens, [&](size_t i) { out.quote = static_cast<When>(i); });
  s.real("sure", 0, 1, out.sure);
  s.boolean("only_passages", out.only_passages);
  s.choice("forms", kWhens, [&](size_t i) { out.forms = static_cast<When>(i); });
  if (out.incorrect > out.correct) s.fail("incorrect", "must not be above 'correct'");
}

void read_search(YamlSection& s, SearchSpec& out) {
  s.choice("strategy", kStrategies,
           [&](size_t i) { out.strategy = static_cast<SearchSpec::Strategy>(i); });
  s.number("width", 1, 64, out.width);
  s.number("branches", 1, 16, out.branches);
  s.number("depth", 1, 64, out.depth);
  s.number("step_tokens", 1, 4096, out.step_tokens);
  s.number("budget", 1, int64_t{1} << 24, out.budget);
}

void read_step(YamlSection& s, YamlProblems& problems, Pipeline& pipeline) {
  StepSpec step;
  s.text("name", step.name);
  s.required("name");
  s.text("system", step.system);
  s.choice("hand_over", kHandOvers,
           [&](size_t i) { step.hand_over = static_cast<StepSpec::HandOver>(i); });
  read_params(s, problems, step.params);
  read_thinking(s, step.thinking);
  if (std::ranges::find(pipeline.steps, step.name, &StepSpec::name) != pipeline.steps.end()) {
    s.fail("name", "is the name of an earlier step, too");
  }
  pipeline.steps.push_back(std::move(step));
}

void read(YamlSection& s, YamlProblems& problems, Pipeline& out) {
  s.text("name", out.name);
  s.required("name");
  if (!out.name.empty() && !is_valid_name(out.name)) {
    s.fail("name", "may have small letters, digits, - and _ only");
  }
  s.text("description", out.description);
  s.text("model", out.model);
  s.text("system", out.system);
  s.choice("mode", kModes, [&](size_t i) { out.mode = static_cast<Mode>(i); });
  read_params(s, problems, out.params);
  read_thinking(s, out.thinking);
  s.sections("adapters", [&](YamlSection& c) {
    protocol::LoraChoice& choice = out.adapters.emplace_back();
    c.text("name", choice.name);
    c.required("name");
    c.real("scale", -64, 64, choice.scale);
  });
  s.texts("engram", out.engram);
  s.sections("examples", [&](YamlSection& c) {
    ExampleSpec& example = out.examples.emplace_back();
    c.text("question", example.question);
    c.required("question");
    c.text("answer", example.answer);
    c.required("answer");
  });
  s.section("constraint", [&](YamlSection& c) { read_constraint(c, out.constraint); });
  s.section("enrich", [&](YamlSection& c) { read_enrich(c, out.enrich); });
  s.section("tools", [&](YamlSection& c) {
    c.texts("allowed", out.tools.allowed);
    c.texts("approved", out.tools.approved);
    c.number("rounds", 1, 32, out.tools.rounds);
    c.number("calls", 1, 256, out.tools.calls);
  });
  s.section("search", [&](YamlSection& c) { read_search(c, out.search); });
  s.section("gate", [&](YamlSection& c) {
    c.choice("when", kWhens, [&](size_t i) { out.gate.when = static_cast<When>(i); });
    c.real("accept", 0, 1, out.gate.accept);
  });
  s.sections("steps", [&](YamlSection& c) { read_step(c, problems, out); });
  s.scalars("routes",
            [&](const std::string& intent, const std::string& to, const YAML::Mark& mark) {
              if (!is_valid_name(to))
                return problems.add(mark, "'routes." + intent + "' names no pipeline.");
              out.routes[intent] = to;
            });
  s.boolean("read_intent", out.read_intent);
  s.finish();
}

}  // namespace

std::string_view mode_name(Mode mode) { return kModes[static_cast<size_t>(mode)]; }

bool is_valid_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::string_view strategy_name(SearchSpec::Strategy strategy) {
  return kStrategies[static_cast<size_t>(strategy)];
}

Result<Pipeline> parse_pipeline(std::string_view yaml, const std::string& source) {
  YamlProblems problems(source);
  Pipeline out;
  try {
    const YAML::Node document = YAML::Load(std::string(yaml));
    if (!document.IsMap()) return invalid_data(source + ":1: A pipeline is a mapping of keys.");
    YamlSection section(document, "", problems);
    read(section, problems, out);
  } catch (const YAML::Exception& e) {
    problems.add(e.mark, "The file is no valid YAML: " + e.msg + ".");
  }
  if (!problems.empty()) return invalid_data(problems.text());
  return out;
}

}  // namespace chimere::orchestrator
