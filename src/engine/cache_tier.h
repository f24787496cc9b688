// Where the state of a prompt's prefix came from.
#ifndef CHIMERE_ENGINE_CACHE_TIER_H_
#define CHIMERE_ENGINE_CACHE_TIER_H_

namespace chimere::engine {

enum class CacheTier {
  kNone,     ///< no cached prefix: the whole prompt was computed
  kRequest,  ///< Request::prefix
  kDevice,   ///< the state store
  kMemory,   ///< RAM
  kDisk,
};
/// "none", "request", "device", "memory", "disk".
const char* cache_tier_name(CacheTier tier);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_CACHE_TIER_H_
