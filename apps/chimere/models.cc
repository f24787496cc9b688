// chimere list and chimere rm: the models in the model folder.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_amount.h"
#include "base/system.h"
#include "command.h"
#include "hub/model_folder.h"
#include "json.h"
#include "recommended_models.h"
#include "runtime/model_facts.h"
#include "runtime/model_path.h"

namespace chimere::app {
namespace {

std::string kind_of(const std::string& path) {
  return runtime::kind_name(runtime::file_kind(path));
}

/// Behind a file that cannot chat: what it is.
std::string mark(const std::string& path) {
  const std::string kind = kind_of(path);
  return kind == runtime::kind_name(runtime::FileKind::kText) ? "" : "  " + kind;
}

Status list(const CommandLine& line) {
  CHIMERE_TRY(const std::string folder, runtime::model_folder(line.settings));
  const std::vector<hub::LocalModel> models = hub::list_models(folder);
  if (line.json) {
    Json rows = Json::array();
    for (const hub::LocalModel& m : models) {
      rows.push_back({{"name", m.name},
                      {"path", m.path},
                      {"bytes", m.bytes},
                      {"files", m.files.size()},
                      {"partial", m.partial},
                      {"kind", m.partial ? Json() : Json(kind_of(m.path))}});
    }
    print_json(rows);
    return {};
  }
  if (models.empty()) {
    std::cerr << "There is no model in " << folder << "; `" << line.program
              << " pull OWNER/NAME` downloads one.\n";
  }
  const std::vector<runtime::NamedModel> shipped = runtime::shipped_models();
  size_t width = 4;
  for (const runtime::NamedModel& m : shipped) width = std::max(width, m.name.size());
  for (const hub::LocalModel& m : models) width = std::max(width, m.name.size());
  for (const hub::LocalModel& m : models) {
    std::cout << fmt::format("{:{}}  {:>10}{}\n", m.name, width,
                             human_bytes(static_cast<double>(m.bytes)),
                             m.partial ? "  unfinished: pull it again, or rm it" : mark(m.path));
  }
  for (const runtime::NamedModel& m : shipped) {
    std::cout << fmt::format("{:{}}  comes with the program{}\n", m.name, width, mark(m.path));
  }
  return {};
}

Status remove(const CommandLine& line, const std::vector<std::string>& names) {
  CHIMERE_TRY(const std::string folder, runtime::model_folder(line.settings));
  Json removed = Json::array();
  for (const std::string& name : names) {
    std::vector<hub::LocalModel> models;
    for (const hub::LocalModel& m : hub::list_models(folder)) {
      if (m.name == name) models.push_back(m);  // an unfinished download has the same name
    }
    if (models.empty()) {
      CHIMERE_TRY(const hub::LocalModel found, hub::find_local_model(folder, name));
      models.push_back(found);
    }
    for (const hub::LocalModel& m : models) {
      CHIMERE_CHECK_OK(hub::remove_model(folder, m));
      removed.push_back({{"name", m.name}, {"bytes", m.bytes}});
      if (!line.json) {
        std::cout << fmt::format("Removed {} ({})\n", m.name,
                                 human_bytes(static_cast<double>(m.bytes)));
      }
    }
  }
  if (line.json) print_json({{"removed", removed}});
  return {};
}

/// Models worth pulling; `fitting`: those that this machine's memory holds.
Status suggest(const CommandLine& line, bool fitting) {
  std::vector<RecommendedModel> models(recommended_models().begin(), recommended_models().end());
  if (fitting) {
    models = models_for_memory(available_memory(), models.size());
    std::ranges::reverse(models);
  }
  if (line.json) {
    Json rows = Json::array();
    for (const RecommendedModel& m : models) {
      rows.push_back({{"name", std::string(m.name)},
                      {"gigabytes", m.gigabytes},
                      {"note", std::string(m.note)}});
    }
    print_json(rows);
    return {};
  }
  if (models.empty()) {
    std::cerr << "None of the models that `chimere models` lists fits this machine's memory.\n";
    return {};
  }
  size_t width = 0;
  for (const RecommendedModel& m : models) width = std::max(width, m.name.size());
  for (const RecommendedModel& m : models) {
    std::cout << fmt::format("{:{}}  {:>4} GB\n  {}\n", m.name, width, m.gigabytes, m.note);
  }
  std::cerr << fmt::format("`{} pull NAME` downloads one. The list is of {}.\n", line.program,
                           kRecommendedDate);
  return {};
}

}  // namespace

void declare_models(Command& app, CommandLine& line) {
  const auto fitting = std::make_shared<bool>(false);
  Command command = add_command(app, line, "models", "Lists models worth downloading",
                                [&line, fitting] { return suggest(line, *fitting); });
  command.flag("--for-this-machine", *fitting, "Only those that this machine's memory holds");
}

void declare_list(Command& app, CommandLine& line) {
  Command command = add_command(app, line, "list", "Lists the models in the model folder",
                                [&line] { return list(line); });
  add_settings(command, line, {SettingGroup::kModelFolder});
}

void declare_rm(Command& app, CommandLine& line) {
  const auto names = std::make_shared<std::vector<std::string>>();
  Command command = add_command(app, line, "rm", "Deletes models from the model folder",
                                [&line, names] { return remove(line, *names); });
  command.option("MODEL", *names, "Names as `chimere list` gives them").required();
  add_settings(command, line, {SettingGroup::kModelFolder});
}

}  // namespace chimere::app
