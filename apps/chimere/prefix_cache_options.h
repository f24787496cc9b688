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
#include "gguf/reader.h"

namespace chimere::app {

/// Those of the commands that serve.
std::span<const SettingInfo* const> prefix_cache_settings();

/// --state-folder alone, for commands that keep something there besides.
std::span<const SettingInfo* const> state_folder_settings();

/// --state-folder, or the user's own; empty if there is neither.
std::string state_folder(const Settings& settings);

/// Nothing where --prefix-states is 0; the state store needs room for that many states besides
/// those of its sequences. Where something goes to disk the file's weights begin to be hashed; the
/// file must outlive the options. Without a folder to keep prompts in they are kept in memory
/// alone. `log` is told of that, and of what goes wrong with files.
std::optional<engine::PrefixCacheOptions> prefix_cache_options(
    const Settings& settings, const gguf::Reader& file,
    std::function<void(const std::string&)> log);

/// Where prompts will be kept on disk, how much of them and how to turn it off, if that folder is
/// not there yet; else nothing.
std::optional<std::string> first_start_notice(
    const std::optional<engine::PrefixCacheOptions>& options);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PREFIX_CACHE_OPTIONS_H_
