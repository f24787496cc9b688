#include "runtime/prefix_cache_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/state_folder.h"

namespace chimere::runtime {

std::optional<engine::PrefixCacheOptions> prefix_cache_options(
    const Settings& settings, const gguf::Reader& file,
    std::function<void(const std::string&)> log) {
  std::optional<engine::PrefixCacheOptions> out;
  const int64_t states = settings.get(settings::kCacheStates);
  if (states == 0) return out;
  engine::PrefixCacheOptions& cache = out.emplace();
  cache.device_states = states;
  cache.memory_bytes = settings.get(settings::kCacheMemory) << 20;
  cache.disk.seconds_to_live = settings.get(settings::kCacheHours) * 3600;
  cache.log = std::move(log);
  const int64_t disk_bytes = settings.get(settings::kCacheDisk) << 20;
  const std::string folder = state_folder(settings);
  if (disk_bytes > 0 && folder.empty()) {
    cache.log(
        "Prompts are kept in memory only: there is no home folder to keep them in. Name a folder "
        "(--state-folder), or keep nothing on disk (--prefix-disk 0).");
    return out;
  }
  cache.disk.max_bytes = disk_bytes;
  if (disk_bytes == 0) return out;
  cache.disk.folder = folder + "/prefix";
  cache.weights = hash_weights(settings, file);
  return out;
}

std::optional<std::string> first_start_notice(
    const std::optional<engine::PrefixCacheOptions>& options) {
  std::error_code error;
  if (!options || options->disk.max_bytes == 0 ||
      std::filesystem::exists(options->disk.folder, error)) {
    return std::nullopt;
  }
  const int64_t hours = options->disk.seconds_to_live / 3600;
  return fmt::format(
      "Computed prompts are kept in {}: at most {} MiB (--prefix-disk){}. --prefix-disk 0 keeps "
      "nothing on disk; `chimere state purge` removes what is there.",
      options->disk.folder, options->disk.max_bytes >> 20,
      hours > 0 ? fmt::format(", each for {} hours after its last use (--prefix-hours)", hours)
                : "");
}

}  // namespace chimere::runtime
