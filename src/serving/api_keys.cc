#include "serving/api_keys.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <sstream>
#include <utility>

#include "base/file_stream.h"
#include "base/sha256.h"

namespace chimere::serving {
namespace {

using Json = nlohmann::ordered_json;
using std::filesystem::perms;

constexpr auto kScopes = std::to_array<Scope>({
    {"inference", "everything that the model computes", true},
    {"metrics", "/metrics and /v1/status", true},
    {"engram", "writing memories", false},
    {"collections", "changing collections of documents", false},
    {"adapters", "setting the scales of LoRA adapters for all clients", false},
    {"admin", "requests of all clients, and their keys", false},
});

bool same_digest(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

Result<ApiKey> read_key(const Json& entry, const std::string& path) {
  const auto damaged = [&] {
    return invalid_data("The key file '" + path +
                        "' has an invalid entry; write entries with `chimere keys add`.");
  };
  if (!entry.is_object()) return damaged();
  ApiKey key;
  try {
    key.name = entry.at("name").get<std::string>();
    key.digest = entry.at("sha256").get<std::string>();
    key.scopes = entry.at("scopes").get<std::vector<std::string>>();
    key.parallel = entry.at("parallel").get<int64_t>();
    key.per_minute = entry.at("per_minute").get<int64_t>();
    key.tokens_per_day = entry.value("tokens_per_day", int64_t{0});  // files of older versions
  } catch (const Json::exception&) {
    return damaged();
  }
  if (!check_key(key).ok() || key.digest.size() != 64) return damaged();
  return key;
}

}  // namespace

std::span<const Scope> scopes() { return kScopes; }

std::vector<std::string> ApiKey::default_scopes() {
  std::vector<std::string> names;
  for (const Scope& scope : kScopes) {
    if (scope.by_default) names.emplace_back(scope.name);
  }
  return names;
}

bool ApiKey::has_scope(std::string_view scope) const {
  return std::ranges::find(scopes, scope) != scopes.end();
}

Status check_key(const ApiKey& key) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  if (key.name.empty() || key.name.size() > 64 ||
      key.name.find_first_not_of(kAllowed) != std::string::npos) {
    return invalid_argument(
        "A key's name must have from 1 to 64 letters, digits, dashes, dots or underscores.");
  }
  for (const std::string& scope : key.scopes) {
    if (std::ranges::find(kScopes, scope, &Scope::name) == kScopes.end()) {
      std::string names;
      for (const Scope& known : kScopes) {
        if (!names.empty()) names += ", ";
        names += known.name;
      }
      std::string message = "There is no scope '";
      message.append(scope).append("'; there are ").append(names).append(".");
      return invalid_argument(std::move(message));
    }
  }
  if (key.scopes.empty() || key.parallel < 0 || key.per_minute < 0 || key.tokens_per_day < 0) {
    return invalid_argument("A key needs at least one scope, and limits of 0 or more.");
  }
  return {};
}

Result<std::vector<ApiKey>> load_keys(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  // A file that does not exist is an error too, of type not_found.
  if (error && status.type() != std::filesystem::file_type::not_found) {
    return io_error("The key file '" + path + "' cannot be examined: " + error.message() +
                    ". Give this user access to its folder, or name another file (--keys).");
  }
  if (!std::filesystem::is_regular_file(status)) {
    return not_found("There is no key file '" + path + "'; `chimere keys add NAME --keys " + path +
                     "` creates one.");
  }
  if ((status.permissions() & (perms::group_all | perms::others_all)) != perms::none) {
    return invalid_data("The key file '" + path +
                        "' can be read by others; make it private: chmod 600.");
  }
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  const Json document = Json::parse(text.str(), nullptr, false);
  const bool list =
      document.is_object() && document.contains("keys") && document["keys"].is_array();
  if (!list) return invalid_data("The key file '" + path + "' is damaged.");
  std::vector<ApiKey> keys;
  for (const Json& entry : document["keys"]) {
    CHIMERE_TRY(ApiKey key, read_key(entry, path));
    keys.push_back(std::move(key));
  }
  return keys;
}

Status save_keys(const std::string& path, const std::vector<ApiKey>& keys) {
  Json list = Json::array();
  for (const ApiKey& key : keys) {
    list.push_back({{"name", key.name},
                    {"sha256", key.digest},
                    {"scopes", key.scopes},
                    {"parallel", key.parallel},
                    {"per_minute", key.per_minute},
                    {"tokens_per_day", key.tokens_per_day}});
  }
  const std::string text = Json{{"keys", std::move(list)}}.dump(2) + "\n";
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path));
  CHIMERE_CHECK_OK(file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.commit();
}

std::string make_key() {
  std::random_device random;
  std::string bits;
  for (int i = 0; i < 8; ++i) {
    const uint32_t word = random();
    bits.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return "chimere-" + key_digest(bits);
}

std::string key_digest(std::string_view key) {
  Sha256 sha;
  sha.add(key);
  return sha.finish();
}

Result<std::unique_ptr<KeyRing>> KeyRing::open(std::string path) {
  std::unique_ptr<KeyRing> ring(new KeyRing(std::move(path)));
  CHIMERE_TRY(auto keys, load_keys(ring->path_));
  if (keys.empty()) {
    return not_found("The key file '" + ring->path_ +
                     "' has no keys; `chimere keys add NAME --keys " + ring->path_ + "` adds one.");
  }
  ring->reload_if_changed();
  return ring;
}

void KeyRing::reload_if_changed() {
  checked_ = std::chrono::steady_clock::now();
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path_, error);
  if (error || (written == written_ && !keys_.empty())) return;
  auto keys = load_keys(path_);
  if (!keys.ok()) return;
  written_ = written;
  use(*std::move(keys));
}

void KeyRing::use(std::vector<ApiKey> keys) {
  keys_.clear();
  for (ApiKey& key : keys) keys_.push_back(std::make_shared<const ApiKey>(std::move(key)));
}

std::shared_ptr<const ApiKey> KeyRing::find(std::string_view presented) {
  const std::string digest = key_digest(presented);
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() - checked_ > std::chrono::seconds(1)) reload_if_changed();
  std::shared_ptr<const ApiKey> found;
  for (const auto& key : keys_) {
    if (same_digest(key->digest, digest)) found = key;
  }
  return found;
}

Result<std::vector<ApiKey>> KeyRing::list() {
  const std::lock_guard lock(mutex_);
  return load_keys(path_);
}

Result<std::string> KeyRing::add(ApiKey entry) {
  CHIMERE_CHECK_OK(check_key(entry));
  const std::lock_guard lock(mutex_);
  CHIMERE_TRY(auto keys, load_keys(path_));
  if (std::ranges::find(keys, entry.name, &ApiKey::name) != keys.end()) {
    return invalid_argument("There is a key '" + entry.name + "' already; take another name.");
  }
  std::string key = make_key();
  entry.digest = key_digest(key);
  keys.push_back(std::move(entry));
  CHIMERE_CHECK_OK(save_keys(path_, keys));
  use(std::move(keys));
  return key;
}

Status KeyRing::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  CHIMERE_TRY(auto keys, load_keys(path_));
  if (std::erase_if(keys, [&](const ApiKey& key) { return key.name == name; }) == 0) {
    return not_found("There is no key '" + std::string(name) + "'.");
  }
  CHIMERE_CHECK_OK(save_keys(path_, keys));
  use(std::move(keys));
  return {};
}

}  // namespace chimere::serving
