// Downloads of models with a progress bar, for `pull` and for commands that lack their model.
#ifndef CHIMERE_APPS_CHIMERE_PULL_MODEL_H_
#define CHIMERE_APPS_CHIMERE_PULL_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "hub/pull.h"

namespace chimere::app {

/// The address of the hub.
std::string hub_address(const Settings& settings);

/// hub::pull() into the model folder, from the hub of the settings, with its progress on standard
/// error; Ctrl-C stops it. `confirm`: hub::PullOptions::confirm. Errors: those of hub::pull().
Result<hub::Pulled> pull_model(const hub::ModelName& name, const Settings& settings,
                               std::function<bool(int64_t)> confirm = {});

/// Who holds the terminal while a question is asked.
enum class TerminalUse {
  kFree,    ///< no TerminalMode exists
  kSilent,  ///< one of TerminalMode::Kind::kSilent
};

/// If `model` is the name of a hub's model that is not in the model folder, and the user is at a
/// terminal, asks whether to download it, and does so. Everything else is left to find_model(),
/// whose error names `chimere pull`. Errors: those of pull_model(); kNotFound (the user declined).
Status offer_pull(const std::string& model, const Settings& settings,
                  TerminalUse use = TerminalUse::kFree);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PULL_MODEL_H_
