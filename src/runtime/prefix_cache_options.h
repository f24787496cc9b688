// Options of the prefix cache from settings.
#ifndef CHIMERE_RUNTIME_PREFIX_CACHE_OPTIONS_H_
#define CHIMERE_RUNTIME_PREFIX_CACHE_OPTIONS_H_

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "engine/prefix_cache.h"
#include "gguf/reader.h"

namespace chimere::runtime {

/// Empty if --prefix-states is 0. The state store must hold that many states in addition to those
/// of its sequences. With a disk tier, starts hashing the file's weights; the file must outlive the
/// options. Without a writable folder prompts are kept in memory only. `log` receives that warning
/// and file errors.
std::optional<engine::PrefixCacheOptions> prefix_cache_options(
    const Settings& settings, const gguf::Reader& file,
    std::function<void(const std::string&)> log);

/// The notice of a first start, if the folder of prompts on disk does not exist yet: the folder,
/// its limits, and how to turn the disk tier off.
std::optional<std::string> first_start_notice(
    const std::optional<engine::PrefixCacheOptions>& options);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_PREFIX_CACHE_OPTIONS_H_
