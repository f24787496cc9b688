// chimere keys: the API keys of the server.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "json.h"
#include "serving/api_keys.h"

namespace chimere::app {
namespace {

Result<std::string> keys_file(const CommandLine& line) {
  std::string path = line.settings.get(settings::kKeys);
  if (path.empty()) return invalid_argument("Say which file holds the keys: --keys FILE.");
  return path;
}

/// The file's keys; none if it does not exist yet.
Result<std::vector<serving::ApiKey>> load(const std::string& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) {
    return io_error(fmt::format(
        "The key file '{}' cannot be examined: {}. Give this user access to its folder, or name "
        "another file (--keys).",
        path, error.message()));
  }
  if (!exists) return std::vector<serving::ApiKey>();
  return serving::load_keys(path);
}

Status add(const CommandLine& line, serving::ApiKey entry) {
  CHIMERE_TRY(const std::string path, keys_file(line));
  CHIMERE_CHECK_OK(serving::check_key(entry));
  CHIMERE_TRY(auto keys, load(path));
  if (std::ranges::find(keys, entry.name, &serving::ApiKey::name) != keys.end()) {
    return invalid_argument("There is a key '" + entry.name +
                            "' already; take another name, or remove it first: chimere keys rm " +
                            entry.name + ".");
  }
  const std::string key = serving::make_key();
  entry.digest = serving::key_digest(key);
  const std::string name = entry.name;
  keys.push_back(std::move(entry));
  CHIMERE_CHECK_OK(serving::save_keys(path, keys));
  if (line.json) {
    print_json({{"name", name}, {"key", key}});
  } else {
    std::cout << key << '\n';
    std::cerr << "This is the only time that the key is shown; the file keeps its digest.\n";
  }
  return {};
}

Status list_keys(const CommandLine& line) {
  CHIMERE_TRY(const std::string path, keys_file(line));
  CHIMERE_TRY(const auto keys, serving::load_keys(path));
  Json out = Json::array();
  for (const serving::ApiKey& key : keys) {
    out.push_back({{"name", key.name},
                   {"scopes", key.scopes},
                   {"parallel", key.parallel},
                   {"per_minute", key.per_minute},
                   {"tokens_per_day", key.tokens_per_day}});
  }
  if (line.json) {
    print_json(out);
    return {};
  }
  if (keys.empty()) {
    std::cerr << fmt::format(
        "There is no key in {0}; `chimere keys add NAME --keys {0}` adds one.\n", path);
    return {};
  }
  std::vector<std::array<std::string, 5>> rows = {
      {"NAME", "SCOPES", "PARALLEL", "PER MINUTE", "TOKENS/DAY"}};
  const auto limit = [](int64_t n) { return n == 0 ? std::string("no limit") : std::to_string(n); };
  for (const serving::ApiKey& key : keys) {
    rows.push_back({key.name, fmt::format("{}", fmt::join(key.scopes, ",")), limit(key.parallel),
                    limit(key.per_minute), limit(key.tokens_per_day)});
  }
  std::array<size_t, 4> widths{};
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::cout << fmt::format("{:{}}  {:{}}  {:{}}  {:{}}  {}\n", row[0], widths[0], row[1],
                             widths[1], row[2], widths[2], row[3], widths[3], row[4]);
  }
  return {};
}

/// The help of --scopes.
std::string scopes_help() {
  std::string help = "What the key may do, comma-separated:";
  const char* before = " ";
  for (const serving::Scope& scope : serving::scopes()) {
    help += fmt::format("{}{} ({})", before, scope.name, scope.meaning);
    before = ", ";
  }
  return help +
         "; default: " + fmt::format("{}", fmt::join(serving::ApiKey::default_scopes(), ","));
}

Status remove(const CommandLine& line, const std::string& name) {
  CHIMERE_TRY(const std::string path, keys_file(line));
  CHIMERE_TRY(auto keys, serving::load_keys(path));
  if (std::erase_if(keys, [&](const serving::ApiKey& k) { return k.name == name; }) == 0) {
    return not_found("There is no key '" + name + "'; `chimere keys list` shows those there are.");
  }
  CHIMERE_CHECK_OK(serving::save_keys(path, keys));
  if (line.json) print_json({{"removed", name}});
  return {};
}

}  // namespace

void declare_keys(Command& app, CommandLine& line) {
  Command keys = app.group("keys", "Manages the server's API keys and their limits");

  const auto entry = std::make_shared<serving::ApiKey>();
  Command adding = add_command(keys, line, "add", "Creates a key and shows it once",
                               [&line, entry] { return add(line, *entry); });
  adding.option("NAME", entry->name, "The client's name, which appears in the log").required();
  adding.option("--scopes", entry->scopes, scopes_help()).separator(',');
  adding.option("--parallel", entry->parallel, "Requests at the same time; 0: no limit");
  adding.option("--per-minute", entry->per_minute, "Requests a minute; 0: no limit");
  adding.option("--tokens-per-day", entry->tokens_per_day,
                "Tokens of prompts and generations a day, which begins at 0:00 UTC; 0: no limit");
  add_settings(adding, line, {SettingGroup::kKeys});

  Command listing = add_command(keys, line, "list", "Lists names, scopes and limits",
                                [&line] { return list_keys(line); });
  add_settings(listing, line, {SettingGroup::kKeys});

  const auto name = std::make_shared<std::string>();
  Command removing =
      add_command(keys, line, "rm", "Removes a key", [&line, name] { return remove(line, *name); });
  removing.option("NAME", *name, "The key's name").required();
  add_settings(removing, line, {SettingGroup::kKeys});
}

}  // namespace chimere::app
