// chimere pull: a model from a hub into the model folder.
#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "base/byte_amount.h"
#include "command.h"
#include "json.h"
#include "pull_model.h"
#include "runtime/model_path.h"

namespace chimere::app {
namespace {

Status pull(const CommandLine& line, const std::string& text) {
  CHIMERE_TRY(const hub::ModelName name, hub::parse_model_name(text));
  CHIMERE_TRY(const std::string folder, runtime::model_folder(line.settings));
  auto pulled = pull_model(name, line.settings);
  if (!pulled.ok()) {
    Error error = std::move(pulled).error();
    if (error.code == Error::Code::kCancelled) {
      error.message = "Stopped; run the same command again to resume the download.";
    }
    return error;
  }
  if (line.json) {
    print_json({{"name", pulled->model.name},
                {"path", pulled->model.path},
                {"bytes", pulled->model.bytes},
                {"files", pulled->model.files.size()},
                {"downloaded", pulled->downloaded}});
  } else {
    std::cout << fmt::format("{} is in {} ({}). Use it with -m {}\n", pulled->model.name, folder,
                             human_bytes(static_cast<double>(pulled->model.bytes)),
                             pulled->model.name);
  }
  return {};
}

}  // namespace

void declare_pull(Command& app, CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  Command command = add_command(app, line, "pull", "Downloads a model into the model folder",
                                [&line, name] { return pull(line, *name); });
  command.option("MODEL", *name, "OWNER/NAME or OWNER/NAME:QUANT, like a/b-GGUF:Q4_K_M").required();
  add_settings(command, line, {SettingGroup::kModelFolder, SettingGroup::kHub});
}

}  // namespace chimere::app
