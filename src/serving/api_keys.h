// Keys that clients show, and the file that knows them without holding them.
#ifndef CHIMERE_SERVING_API_KEYS_H_
#define CHIMERE_SERVING_API_KEYS_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::serving {

struct Scope {
  std::string_view name;
  std::string_view meaning;
  bool by_default = false;  ///< of a key for which nothing else is said
};
/// Every scope there is.
std::span<const Scope> scopes();

struct ApiKey {
  std::string name;                                    ///< 1 to 64 letters, digits, '-', '_', '.'
  std::string digest;                                  ///< SHA-256 of the key, in hexadecimal
  std::vector<std::string> scopes = default_scopes();  ///< names of scopes(), at least one
  int64_t parallel = 0;                                ///< requests at the same time; 0: no limit
  int64_t per_minute = 0;                              ///< requests; 0: no limit

  bool may(std::string_view scope) const;
  static std::vector<std::string> default_scopes();
};

/// {"keys": [{"name", "sha256", "scopes", "parallel", "per_minute"}]}. The file must be readable by
/// its owner alone. Errors: kNotFound, kInvalidData (with the reason).
Result<std::vector<ApiKey>> load_keys(const std::string& path);
/// Replaces the file. Errors: those of AtomicFile.
Status save_keys(const std::string& path, const std::vector<ApiKey>& keys);

/// A new key: 256 random bits as text. A fast digest is enough for it: there is nothing to guess.
std::string make_key();
std::string key_digest(std::string_view key);
/// Errors: kInvalidArgument, saying what a name or scope may be.
Status check_key(const ApiKey& key);

/// The keys of a file that may change while it is used.
class KeyRing {
 public:
  /// Errors: those of load_keys().
  static Result<std::unique_ptr<KeyRing>> open(std::string path);

  /// The key's entry; nullptr if nobody has it. The time does not tell how much of a key is right.
  /// Any thread. Looks at the file once a second; one that cannot be read any more leaves the keys
  /// as they were.
  std::shared_ptr<const ApiKey> find(std::string_view presented);

 private:
  explicit KeyRing(std::string path) : path_(std::move(path)) {}
  void reload_if_changed();

  std::string path_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ApiKey>> keys_;
  std::filesystem::file_time_type written_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_API_KEYS_H_
