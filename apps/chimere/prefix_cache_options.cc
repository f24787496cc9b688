#include "prefix_cache_options.h"

#include <utility>

#include "base/system.h"

namespace chimere::app {

std::span<const SettingInfo* const> prefix_cache_settings() {
  static constexpr const SettingInfo* kAll[] = {&settings::kStateFolder, &settings::kCacheStates,
                                                &settings::kCacheMemory, &settings::kCacheDisk,
                                                &settings::kCacheHours};
  return kAll;
}

std::string state_folder(const Settings& settings) {
  const std::string& named = settings.get(settings::kStateFolder);
  if (!named.empty()) return named;
  const std::string users = chimere::state_folder();
  return users.empty() ? "" : users + "/chimere";
}

Result<std::optional<engine::PrefixCacheOptions>> prefix_cache_options(
    const Settings& settings, std::function<void(const std::string&)> log) {
  std::optional<engine::PrefixCacheOptions> out;
  const int64_t states = settings.get(settings::kCacheStates);
  if (states == 0) return out;
  engine::PrefixCacheOptions& cache = out.emplace();
  cache.device_states = states;
  cache.memory_bytes = settings.get(settings::kCacheMemory) << 20;
  cache.disk.max_bytes = settings.get(settings::kCacheDisk) << 20;
  cache.disk.seconds_to_live = settings.get(settings::kCacheHours) * 3600;
  cache.log = std::move(log);
  if (cache.disk.max_bytes == 0) return out;
  const std::string folder = state_folder(settings);
  if (folder.empty()) {
    return invalid_argument(
        "There is no home folder to keep the prefix cache in; name one (--state-folder), or keep "
        "nothing on disk (--prefix-disk 0).");
  }
  cache.disk.folder = folder + "/prefix";
  return out;
}

}  // namespace chimere::app
