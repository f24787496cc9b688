#include "pull_model.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "base/byte_amount.h"
#include "base/terminal.h"
#include "interrupt.h"
#include "runtime/model_path.h"
#include "transfer_progress.h"

namespace chimere::app {
namespace {

/// Asks a question that Enter or "y" affirms; other letters, Esc, Ctrl-C and Ctrl-D deny it.
bool affirmed(const std::string& question, TerminalUse use) {
  const InterruptScope interrupt;
  std::optional<TerminalMode> mode;
  if (use == TerminalUse::kFree) mode.emplace(TerminalMode::Kind::kSilent);
  write_to_terminal(question + " [Y/n] ");
  while (true) {
    constexpr int kPeriod = 200;  // milliseconds
    const TypedBytes typed = read_typed(kPeriod);
    if (typed.bytes.empty() && !typed.ended && !interrupt.interrupted()) continue;
    const bool yes = !typed.bytes.empty() &&
                     std::string_view("yY\r\n").find(typed.bytes.front()) != std::string_view::npos;
    write_to_terminal(yes ? "yes\n" : "no\n");
    return yes;
  }
}

}  // namespace

std::string hub_address(const Settings& settings) {
  const std::string& named = settings.get(settings::kHubEndpoint);
  return named.empty() ? std::string(settings::kHubEndpoint.default_value) : named;
}

Result<hub::Pulled> pull_model(const hub::ModelName& name, const Settings& settings,
                               std::function<bool(int64_t)> confirm) {
  hub::PullOptions options;
  options.endpoint = hub_address(settings);
  options.token = settings.get(settings::kHubToken);
  CHIMERE_TRY(options.folder, runtime::model_folder(settings));
  options.offline = settings.get(settings::kOffline);
  options.confirm = std::move(confirm);
  const InterruptScope interrupt;
  TransferProgress progress("Pulling");
  return hub::pull(
      name, options, [&](const hub::PullProgress& p) { progress.show(p.done, p.total); },
      [&] { return interrupt.interrupted(); });
}

Status offer_pull(const std::string& model, const Settings& settings, TerminalUse use) {
  if (!is_terminal(StandardStream::kInput) || !is_terminal(StandardStream::kError) ||
      settings.get(settings::kOffline) || model.ends_with(".gguf")) {
    return {};
  }
  const auto name = hub::parse_model_name(model);
  if (!name.ok() || runtime::find_model(model, settings).ok()) return {};
  std::string from = hub_address(settings);
  if (const size_t scheme = from.find("://"); scheme != std::string::npos) {
    from.erase(0, scheme + 3);
  }
  bool declined = false;
  const auto pulled = pull_model(*name, settings, [&](int64_t bytes) {
    declined = !affirmed(fmt::format("{} is not here yet. Download {} from {}?", model,
                                     human_bytes(static_cast<double>(bytes)), from),
                         use);
    return !declined;
  });
  if (declined) {
    return not_found("Nothing was downloaded; `chimere pull " + model + "` does it later.");
  }
  if (!pulled.ok() && pulled.error().code == Error::Code::kCancelled) {
    return Error{Error::Code::kCancelled,
                 "Stopped; `chimere pull " + model + "` resumes the download."};
  }
  return pulled.ok() ? Status() : Status(pulled.error());
}

}  // namespace chimere::app
