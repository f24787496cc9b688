// The registry of settings. Each setting is a row of base/settings.def; its command-line flag, its
// CHIMERE_* environment variable, its key in the config file, its field of the API, its validation
// and its help text follow from that row.
#ifndef CHIMERE_BASE_SETTINGS_H_
#define CHIMERE_BASE_SETTINGS_H_

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/result.h"

namespace chimere {

/// Settings that a command takes together.
enum class SettingGroup : uint8_t {
  kModelName,       ///< the model and its folder
  kDevice,          ///< where a model runs
  kPooling,         ///< how an embedding model pools
  kModelFolder,     ///< the folder alone
  kModel,           ///< everything that running a model takes
  kThreads,         ///< --threads alone
  kHub,             ///< downloads
  kServer,          ///< `serve` itself
  kKeys,            ///< the file of API keys
  kPrefixCache,     ///< the prefix cache with its folder
  kStateFolder,     ///< the folder alone
  kSampling,        ///< limits and sampling of a generation
  kEngram,          ///< n-gram tables in a generation
  kEngramTables,    ///< n-gram tables and their weight
  kTokenizerCheck,  ///< --assume-tokenizer alone
  kCollections,     ///< document collections: their folder and models
  kQuiet,           ///< --quiet
  kVerbose,         ///< --verbose
  kAdapters,        ///< --lora
  kChatTemplate,    ///< --chat-template
  kDrafter,         ///< --draft-model
};

/// The description of a setting, apart from its C++ type.
struct SettingInfo {
  /// Names of choices, at most ten.
  class Choices {
   public:
    constexpr Choices() = default;
    constexpr Choices(std::initializer_list<std::string_view> names) {
      for (const std::string_view choice : names) names_.at(count_++) = choice;
    }
    constexpr const std::string_view* begin() const { return names_.data(); }
    constexpr const std::string_view* end() const { return begin() + count_; }
    constexpr bool empty() const { return count_ == 0; }

   private:
    std::array<std::string_view, 10> names_ = {};
    size_t count_ = 0;
  };
  class Groups {
   public:
    constexpr Groups() = default;
    constexpr Groups(std::initializer_list<SettingGroup> groups) {
      for (const SettingGroup group : groups) mask_ |= bit(group);
    }
    constexpr bool empty() const { return mask_ == 0; }
    constexpr bool has(SettingGroup group) const { return (mask_ & bit(group)) != 0; }

   private:
    static constexpr uint32_t bit(SettingGroup group) { return 1U << static_cast<uint32_t>(group); }
    uint32_t mask_ = 0;
  };
  enum class Kind { kInteger, kReal, kText, kSwitch };

  std::string_view name;  ///< "top-k": the flag --top-k, the key top-k, the variable CHIMERE_TOP_K
  std::string_view short_flag = {};  ///< "m" for -m; empty: none
  std::string_view field = {};       ///< of an API request that may set it; empty: none may
  /// Key below "general.sampling." of a model file with the model's own default; empty: none.
  std::string_view file_key = {};
  std::string_view variable = {};       ///< established variable name; empty: CHIMERE_ and the name
  std::string_view default_value = {};  ///< as the user would write it
  double min = 0;                       ///< for numbers
  double max = 0;                       ///< for numbers, and items of a list in a request
  bool bytes = false;                   ///< for texts: an amount of memory like 15.5GiB, or empty
  bool json_list = false;               ///< for texts: a JSON list of strings
  Choices choices = {};                 ///< for texts and integers; empty: any
  char separator = '\0';                ///< between the items of a list of choices; 0: one choice
  bool repeatable = false;              ///< for texts: a list, whose items each flag may give
  Groups groups = {};                   ///< of commands that take it as a flag; empty: none does
  std::string_view help = {};           ///< one sentence, no full stop
  Kind kind = Kind::kText;              ///< follows from the C++ type
};

/// A setting with the C++ type of its value.
template <typename T>
struct Setting : SettingInfo {
  constexpr explicit Setting(SettingInfo info) : SettingInfo(info) {
    kind = std::same_as<T, bool>      ? Kind::kSwitch
           : std::same_as<T, int64_t> ? Kind::kInteger
           : std::same_as<T, double>  ? Kind::kReal
                                      : Kind::kText;
  }
};

namespace settings {

using Group = SettingGroup;

/// The type of a setting that sets a number of type T.
template <typename T>
using ValueFor = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

constexpr SettingInfo sampling_option(SettingInfo info) {
  info.groups = {Group::kSampling};
  return info;
}

#define SETTING(id, type, ...) inline constexpr Setting<type> id(SettingInfo{__VA_ARGS__});
#define SAMPLING_OPTION(id, type, member, neutral, ...) \
  inline constexpr Setting<ValueFor<type>> id(sampling_option({__VA_ARGS__}));
#define DRY_OPTION(id, type, member, neutral, ...) \
  inline constexpr Setting<ValueFor<type>> id(sampling_option({__VA_ARGS__}));
#include "base/settings.def"

/// All settings, in the order of `--help`.
std::span<const SettingInfo* const> all();
/// Those of a group, in the same order.
std::vector<const SettingInfo*> in_group(SettingGroup group);
/// nullptr if there is none of that name.
const SettingInfo* find(std::string_view name);

/// "CHIMERE_TOP_K" for "top-k", or the established name.
std::string variable_name(const SettingInfo& setting);
/// "from 0 to 1", "one of f32, f16" or empty.
std::string range_text(const SettingInfo& setting);

}  // namespace settings

/// The values of all settings. Later sources override earlier ones: default, config file,
/// environment, command line.
class Settings {
 public:
  Settings();  ///< all defaults

  /// Validates and stores a value. `source` says where it came from ("--top-k", "CHIMERE_TOP_K",
  /// "config:3"). Errors: kInvalidArgument, a sentence with source, value and valid range.
  Status set(const SettingInfo& setting, std::string_view text, std::string_view source);

  /// Whether set() was called for it: its value is not the default.
  bool is_set(const SettingInfo& setting) const { return set_.contains(setting.name); }

  /// Reads lines `key = value`; skips empty lines and lines that begin with #. Errors: an unknown
  /// key, an invalid value or a malformed line, each with its line number; kNotFound if the file
  /// does not exist.
  Status load_file(const std::string& path);
  /// `environment`: "NAME=value" strings, terminated by nullptr. Variables that do not belong to a
  /// setting are skipped. Errors: an unknown CHIMERE_* variable, an invalid value.
  Status load_environment(const char* const* environment);

  int64_t get(const Setting<int64_t>& s) const { return std::get<int64_t>(value(s)); }
  bool get(const Setting<bool>& s) const { return std::get<bool>(value(s)); }
  double get(const Setting<double>& s) const { return std::get<double>(value(s)); }
  const std::string& get(const Setting<std::string>& s) const {
    return std::get<std::string>(value(s));
  }

 private:
  using Value = std::variant<int64_t, double, std::string, bool>;
  static Result<Value> parse(const SettingInfo& setting, std::string_view text,
                             std::string_view source);
  const Value& value(const SettingInfo& s) const { return values_.at(s.name); }

  std::map<std::string_view, Value> values_;
  std::set<std::string_view> set_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_SETTINGS_H_
