// Options of the prefix cache from settings.
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

/// Settings of the prefix cache.
std::span<const SettingInfo* const> prefix_cache_settings();

/// --state-folder, or the default below the user's home; empty if there is neither.
std::string state_folder(const Settings& settings);

/// Absent if --prefix-states is 0. The state store must hold that many states beside those of its
/// sequences. `log` receives file errors. Errors: kInvalidArgument (--prefix-disk without a
/// folder).
Result<std::optional<engine::PrefixCacheOptions>> prefix_cache_options(
    const Settings& settings, std::function<void(const std::string&)> log);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PREFIX_CACHE_OPTIONS_H_
