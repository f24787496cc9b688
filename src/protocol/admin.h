// What an operator sees and changes: requests under way and API keys. Pure data, and its JSON.
#ifndef CHIMERE_PROTOCOL_ADMIN_H_
#define CHIMERE_PROTOCOL_ADMIN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// A request whose response is not complete.
struct RunningRequest {
  std::string id = {};     ///< X-Request-Id
  std::string key = {};    ///< name of the API key; empty: none
  std::string route = {};  ///< as in docs/serving.md
  int64_t bytes = 0;       ///< of its body
  double seconds = 0;      ///< since it was admitted
};

/// An API key without its secret.
struct KeyEntry {
  std::string name = {};
  std::vector<std::string> scopes = {};
  int64_t parallel = 0;        ///< requests at the same time; 0: no limit
  int64_t per_minute = 0;      ///< requests; 0: no limit
  int64_t tokens_per_day = 0;  ///< 0: no limit
  int64_t tokens_today = 0;    ///< used since 0:00 UTC
};

struct CreateKeyRequest {
  std::string name = {};
  std::vector<std::string> scopes = {};  ///< empty: those of a key for which nothing is said
  int64_t parallel = 0;
  int64_t per_minute = 0;
  int64_t tokens_per_day = 0;
};

std::optional<ApiError> parse_create_key(std::string_view body, const RequestLimits& limits,
                                         CreateKeyRequest& out);

std::string running_requests(std::span<const RunningRequest> requests);
/// `scopes`: all that there are.
std::string key_list(std::span<const KeyEntry> keys, std::span<const std::string> scopes);
std::string key_created(std::string_view name, std::string_view key);
std::string key_deleted(std::string_view name);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_ADMIN_H_
