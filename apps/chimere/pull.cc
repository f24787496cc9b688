// chimere pull: a model from a hub into the model folder.
#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "base/system.h"
#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "model_path.h"
#include "stopwatch.h"

namespace chimere::app {
namespace {

/// Tells on standard error how far a download is: on a terminal in place, else in a line every ten
/// seconds.
class Progress {
 public:
  void show(const hub::PullProgress& p) {
    if (first_ < 0) first_ = p.done;
    const double now = watch_.seconds();
    if (p.done < p.total && now - shown_ < (terminal_ ? 0.2 : 10)) return;
    shown_ = now;
    const double rate = now > 0.5 ? static_cast<double>(p.done - first_) / now : 0;
    std::string text = fmt::format("{} of {}", human_bytes(static_cast<double>(p.done)),
                                   human_bytes(static_cast<double>(p.total)));
    if (p.total > 0)
      text += fmt::format(" ({:.0f}%)",
                          100.0 * static_cast<double>(p.done) / static_cast<double>(p.total));
    if (rate > 0) {
      text += fmt::format(", {}/s, {:.0f} s left", human_bytes(rate),
                          static_cast<double>(p.total - p.done) / rate);
    }
    if (terminal_) {
      std::cerr << fmt::format("\r{:70}", text) << std::flush;
    } else {
      std::cerr << text << '\n';
    }
    open_ = terminal_;
  }
  ~Progress() {
    if (open_) std::cerr << '\n';
  }

 private:
  bool terminal_ = is_terminal(StandardStream::kError);
  bool open_ = false;
  Stopwatch watch_;
  double shown_ = -100;
  int64_t first_ = -1;
};

Status pull(const CommandLine& line, const std::string& text) {
  CHIMERE_TRY(const hub::ModelName name, hub::parse_model_name(text));
  hub::PullOptions options;
  options.endpoint = line.settings.get(settings::kHubEndpoint);
  if (options.endpoint.empty()) options.endpoint = settings::kHubEndpoint.default_value;
  options.token = line.settings.get(settings::kHubToken);
  options.folder = model_folder(line.settings);
  options.offline = line.settings.get(settings::kOffline);
  const InterruptScope interrupt;
  Result<hub::Pulled> pulled = hub::Pulled{};
  {
    Progress progress;
    pulled = hub::pull(
        name, options, [&](const hub::PullProgress& p) { progress.show(p); },
        [&] { return interrupt.interrupted(); });
  }
  if (!pulled.ok()) {
    Error error = std::move(pulled).error();
    if (error.code == Error::Code::kCancelled) {
      error.message = "Stopped. What has come is kept: run the same command again to go on.";
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
    std::cout << fmt::format("{} is in {} ({}). Use it with -m {}\n", pulled->model.name,
                             options.folder, human_bytes(static_cast<double>(pulled->model.bytes)),
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
  add_settings(command, line,
               std::vector<const SettingInfo*>{&settings::kModels, &settings::kHubEndpoint,
                                               &settings::kOffline});
}

}  // namespace chimere::app
