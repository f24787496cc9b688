// The registry of settings. Each setting is declared once, here; its command-line flag, its
// CHIMERE_* environment variable, its key in the config file, its validation and its help text
// follow from that declaration.
#ifndef CHIMERE_BASE_SETTINGS_H_
#define CHIMERE_BASE_SETTINGS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace chimere {

/// The description of a setting, apart from its C++ type.
struct SettingInfo {
  std::string_view name;  ///< "top-k": the flag --top-k, the key top-k, the variable CHIMERE_TOP_K
  std::string_view short_flag;     ///< "m" for -m; empty: none
  std::string_view default_value;  ///< as the user would write it
  double min = 0;                  ///< for numbers
  double max = 0;
  std::span<const std::string_view> choices;  ///< for strings; empty: any
  std::string_view help;                      ///< one sentence, no full stop

  enum class Kind { kInteger, kReal, kText, kSwitch };
  Kind kind = Kind::kText;
  char separator = '\0';           ///< between the items of a list of choices; 0: one choice
  std::string_view variable = {};  ///< established variable name; empty: CHIMERE_ and the name
};

/// A setting with the C++ type of its value.
template <typename T>
struct Setting : SettingInfo {
  constexpr explicit Setting(SettingInfo info) : SettingInfo(info) {}
};

namespace settings {

extern const Setting<std::string> kModel;
extern const Setting<std::string> kModels;
extern const Setting<std::string> kHubEndpoint;
extern const Setting<std::string> kHubToken;
extern const Setting<bool> kOffline;
extern const Setting<std::string> kBackend;
extern const Setting<std::string> kVramBudget;
extern const Setting<std::string> kCudaProfile;
extern const Setting<std::string> kCpuExperts;
extern const Setting<int64_t> kThreads;
extern const Setting<int64_t> kContext;
extern const Setting<std::string> kStateMemory;
extern const Setting<std::string> kCacheK;
extern const Setting<std::string> kCacheV;
extern const Setting<double> kExpertTopP;

extern const Setting<std::string> kStateFolder;
extern const Setting<int64_t> kCacheStates;
extern const Setting<int64_t> kCacheMemory;
extern const Setting<int64_t> kCacheDisk;
extern const Setting<int64_t> kCacheHours;

extern const Setting<std::string> kSpeculate;
extern const Setting<std::string> kReasoning;
extern const Setting<int64_t> kMaxTokens;
extern const Setting<std::string> kSamplers;
extern const Setting<double> kTemperature;
extern const Setting<int64_t> kTopK;
extern const Setting<double> kTopP;
extern const Setting<double> kMinP;
extern const Setting<double> kTypical;
extern const Setting<double> kTopNSigma;
extern const Setting<double> kXtcProbability;
extern const Setting<double> kXtcThreshold;
extern const Setting<double> kDynatempRange;
extern const Setting<double> kDynatempExponent;
extern const Setting<std::string> kMirostat;
extern const Setting<double> kMirostatEntropy;
extern const Setting<double> kMirostatRate;
extern const Setting<double> kRepeatPenalty;
extern const Setting<double> kFrequencyPenalty;
extern const Setting<double> kPresencePenalty;
extern const Setting<int64_t> kPenaltyWindow;
extern const Setting<double> kDryMultiplier;
extern const Setting<double> kDryBase;
extern const Setting<int64_t> kDryAllowedLength;
extern const Setting<int64_t> kDryWindow;
extern const Setting<std::string> kDryBreakers;
extern const Setting<std::string> kLogitBias;
extern const Setting<int64_t> kSeed;

extern const Setting<std::string> kEngram;
extern const Setting<std::string> kEngramGate;
extern const Setting<bool> kEngramThinking;
extern const Setting<bool> kAssumeTokenizer;
extern const Setting<bool> kQuiet;
extern const Setting<std::string> kHost;
extern const Setting<int64_t> kPort;
extern const Setting<std::string> kAlias;
extern const Setting<std::string> kEmbeddingModel;
extern const Setting<std::string> kKeys;
extern const Setting<std::string> kTlsCertificate;
extern const Setting<std::string> kTlsKey;
extern const Setting<std::string> kAllowedHosts;
extern const Setting<std::string> kCorsOrigins;
extern const Setting<int64_t> kMaxRunning;
extern const Setting<int64_t> kMaxQueue;
extern const Setting<int64_t> kMaxConnections;
extern const Setting<int64_t> kMaxBody;
extern const Setting<double> kHeaderTimeout;
extern const Setting<double> kIdleTimeout;
extern const Setting<int64_t> kGrace;
extern const Setting<bool> kLogPrompts;

/// All settings, in the order of `--help`.
std::span<const SettingInfo* const> all();
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
};

}  // namespace chimere

#endif  // CHIMERE_BASE_SETTINGS_H_
