// chimere odo check and chimere odo explain: files for the orchestrator, and what it decided.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "json.h"
#include "orchestrator/decision_log.h"
#include "orchestrator/intent_set.h"
#include "orchestrator/pipeline.h"
#include "runtime/state_folder.h"

namespace chimere::app {
namespace {

struct OdoFiles {
  std::vector<std::string> paths;
  bool intents = false;
};

/// What a valid file is, in words. Errors: what is wrong with it.
Result<std::string> describe(const std::string& path, bool intent) {
  CHIMERE_TRY(const std::string text, read_file(path));
  if (intent) {
    CHIMERE_TRY(const auto read, orchestrator::parse_intent(text, path));
    return fmt::format("intent {}, {} examples", read.name, read.examples.size());
  }
  CHIMERE_TRY(const auto read, orchestrator::parse_pipeline(text, path));
  return fmt::format(
      "pipeline {}, mode {}, {}", read.name, orchestrator::mode_name(read.mode),
      read.steps.empty() ? "one generation" : fmt::format("{} steps", read.steps.size()));
}

Status check(const CommandLine& line, const OdoFiles& files) {
  Json list = Json::array();
  size_t invalid = 0;
  for (const std::string& path : files.paths) {
    const auto found = describe(path, files.intents);
    invalid += found.ok() ? 0 : 1;
    if (line.json) {
      list.push_back({{"file", path},
                      {"valid", found.ok()},
                      {found.ok() ? "is" : "why", found.ok() ? *found : found.error().message}});
    } else if (found.ok()) {
      std::cout << path << ": " << *found << '\n';
    } else {
      std::cout << found.error().message << '\n';
    }
  }
  if (line.json) print_json(list);
  if (invalid == 0) return {};
  return invalid_argument(
      fmt::format("{} of {} files cannot be used.", invalid, files.paths.size()));
}

Json decision_json(const orchestrator::Decision& d) {
  Json out = {{"time_ms", d.time_ms},       {"pipeline", d.pipeline},
              {"intent", d.intent},         {"stage", d.stage},
              {"confidence", d.confidence}, {"mode", orchestrator::mode_name(d.mode)},
              {"complexity", d.complexity}};
  out["entropy"] = d.entropy ? Json(*d.entropy) : Json();
  for (size_t i = 0; i < orchestrator::Features::kCount; ++i) {
    out["features"][std::string(orchestrator::Features::name(i))] = d.features.values.at(i);
  }
  out["reasons"] = Json::parse(d.reasons, nullptr, false);
  out["score"] = d.score ? Json(*d.score) : Json();
  out["seconds"] = d.seconds;
  return out;
}

void print_decision(const orchestrator::Decision& d) {
  const std::time_t seconds = d.time_ms / 1000;
  std::cout << fmt::format("{:%Y-%m-%d %H:%M:%S} UTC  pipeline {}, mode {}, {:.1f} s\n",
                           fmt::gmtime(seconds), d.pipeline, orchestrator::mode_name(d.mode),
                           d.seconds);
  std::cout << fmt::format("  intent {} ({}), {:.0f} % sure\n", d.intent,
                           d.stage.empty() ? "a guess" : "by " + d.stage, 100 * d.confidence);
  std::string features;
  for (size_t i = 0; i < orchestrator::Features::kCount; ++i) {
    if (d.features.values.at(i) == 0) continue;
    features += fmt::format("{}{} {:.2f}", features.empty() ? "" : ", ",
                            orchestrator::Features::name(i), d.features.values.at(i));
  }
  std::cout << fmt::format("  complexity {:.2f}{}{}\n", d.complexity, features.empty() ? "" : ": ",
                           features);
  if (d.entropy) std::cout << fmt::format("  entropy of the first tokens {:.2f}\n", *d.entropy);
  if (d.score) std::cout << fmt::format("  score of the answer {:.2f}\n", *d.score);
  const Json reasons = Json::parse(d.reasons, nullptr, false);
  if (!reasons.is_array()) return;
  for (const Json& reason : reasons) {
    if (reason.is_string()) std::cout << "  - " << reason.get<std::string>() << '\n';
  }
}

Status explain(const CommandLine& line, int64_t count) {
  const std::string path = runtime::state_folder(line.settings) + "/odo.db";
  std::error_code none;
  if (!std::filesystem::exists(path, none)) {
    return not_found("The orchestrator has decided nothing yet: there is no " + path + ".");
  }
  CHIMERE_TRY(const auto log, orchestrator::DecisionLog::open(path));
  CHIMERE_TRY(const auto decisions, log->recent(count));
  if (line.json) {
    Json list = Json::array();
    for (const auto& decision : decisions) list.push_back(decision_json(decision));
    print_json(list);
    return {};
  }
  for (const auto& decision : decisions) print_decision(decision);
  return {};
}

}  // namespace

void declare_odo_check(Command& odo, CommandLine& line) {
  const auto files = std::make_shared<OdoFiles>();
  Command command =
      add_command(odo, line, "check", "Says whether files of pipelines, or of intents, are valid",
                  [&line, files] { return check(line, *files); });
  command.option("FILE", files->paths, "YAML files").required();
  command.flag("--intents", files->intents, "They are of intents");
}

void declare_odo_explain(Command& odo, CommandLine& line) {
  const auto count = std::make_shared<int64_t>(1);
  Command command = add_command(odo, line, "explain",
                                "Says what the orchestrator decided on the last requests, and why",
                                [&line, count] { return explain(line, *count); });
  command.option("-n,--count", *count, "How many requests, the newest first")
      .range(1, 10000)
      .show_default();
  add_settings(command, line, {SettingGroup::kStateFolder});
}

}  // namespace chimere::app
