// chimere state: the files that servers keep on disk.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "base/byte_amount.h"
#include "command.h"
#include "json.h"
#include "runtime/state_folder.h"
#include "state/prefix_folder.h"

namespace chimere::app {
namespace {

Status purge(const CommandLine& line, int64_t unused_hours) {
  const std::string folder = runtime::state_folder(line.settings);
  if (folder.empty()) {
    return invalid_argument("There is no home folder; name the state folder (--state-folder).");
  }
  CHIMERE_TRY(const state::Purged purged,
              state::purge_prefix_folder(folder + "/prefix", unused_hours * 3600));
  if (line.json) {
    print_json({{"folder", folder}, {"files", purged.files}, {"bytes", purged.bytes}});
  } else {
    std::cout << fmt::format("Removed {} files ({}) from {}.\n", purged.files,
                             human_bytes(static_cast<double>(purged.bytes)), folder);
  }
  return {};
}

}  // namespace

void declare_state(Command& app, CommandLine& line) {
  Command state = app.group("state", "Deletes what servers keep on disk");
  const auto unused_hours = std::make_shared<int64_t>(0);
  Command command =
      add_command(state, line, "purge", "Removes the prefix-cache files of all models",
                  [&line, unused_hours] { return purge(line, *unused_hours); });
  command.option("--unused", *unused_hours, "Only those not used for this many hours")
      .range(0, 1 << 20);
  add_settings(command, line, {SettingGroup::kStateFolder});
}

}  // namespace chimere::app
