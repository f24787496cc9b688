// From settings to a prefix cache.
#ifndef CHIMERE_APPS_CHIMERE_PREFIX_CACHE_OPTIONS_H_
#define CHIMERE_APPS_CHIMERE_PREFIX_CACHE_OPTIONS_H_

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "engine/prefix_cache.h"

namespace chimere::app {

/// Those of the commands that serve.
std::span<const SettingInfo* const> prefix_cache_settings();

/// --state-folder, or the user's own; empty if there is neither.
std::string state_folder(const Settings& settings);

/// Nothing where --prefix-states is 0; the state store needs room for that many states besides
/// those of its sequences. `log` is told of what goes wrong with files. Errors: kInvalidArgument
/// (--prefix-disk without a folder for it).
Result<std::optional<engine::PrefixCacheOptions>> prefix_cache_options(
    const Settings& settings, std::function<void(const std::string&)> log);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PREFIX_CACHE_OPTIONS_H_
