#include <utility>

#include "protocol/admin.h"
#include "protocol/json_text.h"

namespace chimere::protocol {

std::string running_requests(std::span<const RunningRequest> requests) {
  Json data = Json::array();
  for (const RunningRequest& r : requests) {
    data.push_back({{"object", "request"},
                    {"id", r.id},
                    {"key", r.key},
                    {"route", r.route},
                    {"bytes", r.bytes},
                    {"seconds", r.seconds}});
  }
  return to_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string key_list(std::span<const KeyEntry> keys, std::span<const std::string> scopes) {
  Json data = Json::array();
  for (const KeyEntry& k : keys) {
    data.push_back({{"object", "key"},
                    {"name", k.name},
                    {"scopes", k.scopes},
                    {"parallel", k.parallel},
                    {"per_minute", k.per_minute},
                    {"tokens_per_day", k.tokens_per_day},
                    {"tokens_today", k.tokens_today}});
  }
  return to_text({{"object", "list"}, {"data", std::move(data)}, {"scopes", Json(scopes)}});
}

std::string key_created(std::string_view name, std::string_view key) {
  return to_text({{"object", "key"}, {"name", name}, {"key", key}});
}

std::string key_deleted(std::string_view name) {
  return to_text({{"object", "key.deleted"}, {"name", name}, {"deleted", true}});
}

}  // namespace chimere::protocol
