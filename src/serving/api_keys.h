// API keys and the key file, which stores only their digests.
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
  int64_t parallel = 0;                                ///< concurrent requests; 0: no limit
  int64_t per_minute = 0;                              ///< requests; 0: no limit
  int64_t tokens_per_day = 0;                          ///< of UTC; 0: no limit

  bool has_scope(std::string_view scope) const;
  static std::vector<std::string> default_scopes();
};

/// {"keys": [{"name", "sha256", "scopes", "parallel", "per_minute", "tokens_per_day"}]}. Only the
/// owner may have access to the file. Errors: kNotFound, kInvalidData (with the reason).
Result<std::vector<ApiKey>> load_keys(const std::string& path);
/// Replaces the file atomically. Errors: those of AtomicFile.
Status save_keys(const std::string& path, const std::vector<ApiKey>& keys);

/// A new key: 256 random bits as text. A fast digest suffices, because such keys cannot be guessed.
std::string make_key();
std::string key_digest(std::string_view key);
/// Errors: kInvalidArgument, saying which names and scopes are valid.
Status check_key(const ApiKey& key);

/// The keys of a file that may change while the server runs.
class KeyRing {
 public:
  /// Errors: those of load_keys().
  static Result<std::unique_ptr<KeyRing>> open(std::string path);

  /// The key's entry; nullptr if it is unknown. Compares in constant time. Any thread. Checks the
  /// file for changes once a second; if it can no longer be read, the previous keys stay valid.
  std::shared_ptr<const ApiKey> find(std::string_view presented);

  /// What the file has. Any thread. Errors: those of load_keys().
  Result<std::vector<ApiKey>> list();
  /// Makes a key for an entry without a digest, writes the file, and returns the key; it is valid
  /// at once. Any thread. Errors: kInvalidArgument (a name that is taken, or check_key()), those of
  /// load_keys() and save_keys().
  Result<std::string> add(ApiKey entry);
  /// The key is invalid from now on. Any thread. Errors: kNotFound, those of the file.
  Status remove(std::string_view name);

 private:
  explicit KeyRing(std::string path) : path_(std::move(path)) {}
  // Both require `mutex_`.
  void reload_if_changed();
  void use(std::vector<ApiKey> keys);

  std::string path_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const ApiKey>> keys_;
  std::filesystem::file_time_type written_;
  std::chrono::steady_clock::time_point checked_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_API_KEYS_H_
