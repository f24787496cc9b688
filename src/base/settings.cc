#include "base/settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

namespace chimere {
namespace settings {
namespace {

using Kind = SettingInfo::Kind;

constexpr SettingInfo text(std::string_view name, std::string_view short_flag,
                           std::string_view default_value, std::string_view help,
                           std::span<const std::string_view> choices = {}) {
  return {name, short_flag, default_value, 0, 0, choices, help, Kind::kText, '\0', {}};
}

constexpr SettingInfo integer(std::string_view name, std::string_view short_flag,
                              std::string_view default_value, double min, double max,
                              std::string_view help) {
  return {name, short_flag, default_value, min, max, {}, help, Kind::kInteger, '\0', {}};
}

constexpr SettingInfo real(std::string_view name, std::string_view default_value, double min,
                           double max, std::string_view help) {
  return {name, {}, default_value, min, max, {}, help, Kind::kReal, '\0', {}};
}

constexpr SettingInfo list(std::string_view name, char separator, std::string_view default_value,
                           std::string_view help, std::span<const std::string_view> choices) {
  return {name, {}, default_value, 0, 0, choices, help, Kind::kText, separator, {}};
}

constexpr SettingInfo established(SettingInfo info, std::string_view variable) {
  info.variable = variable;
  return info;
}

constexpr std::array<std::string_view, 2> kMirostats = {"0", "2"};
constexpr std::array<std::string_view, 10> kSamplerNames = {
    "penalties", "dry",   "top_n_sigma", "top_k", "typ_p",
    "typical",   "top_p", "min_p",       "xtc",   "temperature"};
constexpr std::array<std::string_view, 4> kSpeculations = {"off", "auto", "mtp", "ngram"};
constexpr std::array<std::string_view, 2> kGates = {"learned", "always"};
constexpr std::array<std::string_view, 3> kBackends = {"auto", "cpu", "cuda"};
constexpr std::array<std::string_view, 2> kCudaProfiles = {"native", "sm_120"};
constexpr std::array<std::string_view, 5> kCacheTypes = {"f32", "f16", "bf16", "q8_0", "q4_0"};

}  // namespace

constexpr Setting<std::string> kModel(text(
    "model", "m", "",
    "A GGUF file or a name in the model folder; default: the model that ships with the program"));
constexpr Setting<std::string> kModels(
    text("models", "", "",
         "The model folder; default: $XDG_DATA_HOME/chimere/models or "
         "~/.local/share/chimere/models"));
constexpr Setting<std::string> kHubEndpoint(established(
    text("hub-endpoint", "", "https://huggingface.co", "Address that `pull` downloads from"),
    "HF_ENDPOINT"));
constexpr Setting<std::string> kHubToken(established(
    text("hub-token", "", "", "Token for `pull`; sent only to the endpoint's host"), "HF_TOKEN"));
constexpr Setting<bool> kOffline(
    established({"offline", {}, "0", 0, 0, {}, "Do not download anything", Kind::kSwitch, '\0', {}},
                "HF_HUB_OFFLINE"));
constexpr Setting<std::string> kBackend(text("backend", "", "auto", "Device that runs the model",
                                             kBackends));
constexpr Setting<std::string> kVramBudget(
    text("vram-budget", "", "",
         "Maximum GPU memory to use, such as 15.5GiB; default: all that is free"));
constexpr Setting<std::string> kCudaProfile(
    text("cuda-profile", "", "native",
         "Hardware limits by which kernels are chosen: native (this GPU's), or those of another "
         "compute capability, for testing",
         kCudaProfiles));
constexpr Setting<std::string> kCpuExperts(
    text("cpu-experts", "", "auto",
         "Number of layers, from the first on, whose experts stay in host memory and are computed "
         "by the CPU; auto: as few as GPU memory allows"));
constexpr Setting<int64_t> kThreads(integer("threads", "t", "0", 0, 1024,
                                            "CPU threads; 0: all CPUs that this process may use"));
constexpr Setting<int64_t> kContext(integer(
    "ctx", "c", "0", 0, 1 << 24,
    "Tokens that fit into the context; 0: the model's own, in serve as much of it as memory "
    "holds, elsewhere at most 32768"));
constexpr Setting<std::string> kStateMemory(
    text("state-memory", "", "",
         "Maximum memory for KV cache and recurrent states of all requests, such as 8GiB; default: "
         "three quarters of the memory that the weights leave free, on a GPU what --vram-budget "
         "leaves"));
constexpr Setting<std::string> kCacheK(text("cache-k", "", "f16",
                                            "Data type of keys in the KV cache", kCacheTypes));
constexpr Setting<std::string> kCacheV(text("cache-v", "", "f16",
                                            "Data type of values in the KV cache", kCacheTypes));

constexpr Setting<double> kExpertTopP(real(
    "expert-top-p", "1", 1e-6, 1,
    "In decode steps each token uses the fewest experts whose weights reach this sum; 1: all"));

constexpr Setting<std::string> kStateFolder(
    text("state-folder", "", "",
         "Folder of stored prompt states, clients' n-gram memories and hashes of models; default: "
         "$XDG_STATE_HOME/chimere or ~/.local/state/chimere"));
constexpr Setting<int64_t> kCacheStates(
    integer("prefix-states", "", "64", 0, 1 << 16,
            "Maximum number of prefix-cache states on the model's device; 0: no prefix cache"));
constexpr Setting<int64_t> kCacheMemory(
    integer("prefix-memory", "", "1024", 0, 1 << 24,
            "Maximum MiB of host memory for prefix-cache states evicted from the device"));
constexpr Setting<int64_t> kCacheDisk(
    integer("prefix-disk", "", "4096", 0, 1 << 24,
            "Maximum MiB of disk for prefix-cache states, which survive a restart; 0: none"));
constexpr Setting<int64_t> kCacheHours(
    integer("prefix-hours", "", "168", 0, 1 << 20,
            "Hours without use after which a prefix-cache state on disk is removed; 0: never"));

constexpr Setting<std::string> kSpeculate(
    text("speculate", "", "auto",
         "Speculative decoding: drafts from the MTP head (mtp), from n-grams of prompt and output "
         "(ngram), from both when they save time (auto), or none (off); never changes the output",
         kSpeculations));
constexpr Setting<std::string> kReasoning(
    text("reasoning", "", "auto",
         "Limit of the reasoning before the answer: none, low, medium, high or a number of tokens; "
         "auto: the template's default, without a limit"));
constexpr Setting<int64_t> kMaxTokens(integer(
    "max-tokens", "n", "-1", -1, 1 << 24,
    "Maximum number of tokens to generate; -1: until the model stops or the context is full"));
constexpr Setting<std::string> kSamplers(
    list("samplers", ';', "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
         "Samplers to apply, in order", kSamplerNames));
constexpr Setting<double> kTemperature(
    real("temp", "0.7", 0, 100, "Sampling temperature; 0: always the most likely token"));
constexpr Setting<int64_t> kTopK(integer("top-k", "", "20", 0, 1 << 24,
                                         "Keep the k most likely tokens; 0: all"));
constexpr Setting<double> kTopP(
    real("top-p", "0.95", 1e-6, 1,
         "Keep the fewest most likely tokens whose probabilities sum to this; 1: all"));
constexpr Setting<double> kMinP(
    real("min-p", "0", 0, 1,
         "Keep tokens at least this likely relative to the most likely one; 0: all"));
constexpr Setting<double> kTypical(
    real("typical", "1", 1e-6, 1,
         "Locally typical sampling: total probability of the tokens to keep; 1: off"));
constexpr Setting<double> kTopNSigma(
    real("top-nsigma", "-1", -1, 1000,
         "Keep tokens within this many standard deviations of the largest logit; 0 or less: off"));
constexpr Setting<double> kXtcProbability(
    real("xtc-probability", "0", 0, 1,
         "Probability that XTC removes all likely tokens but the least likely one; 0: off"));
constexpr Setting<double> kXtcThreshold(
    real("xtc-threshold", "0.1", 0, 1,
         "Probability from which XTC considers a token likely; above 0.5: off"));
constexpr Setting<double> kDynatempRange(
    real("dynatemp-range", "0", 0, 100,
         "Dynamic temperature: the entropy moves it by up to this either way; 0: off"));
constexpr Setting<double> kDynatempExponent(real("dynatemp-exp", "1", 0, 100,
                                                 "Exponent of the entropy for --dynatemp-range"));
constexpr Setting<std::string> kMirostat(text(
    "mirostat", "", "0",
    "2: Mirostat 2.0 instead of the truncating samplers (top-k, top-p, ...); 0: off", kMirostats));
constexpr Setting<double> kMirostatEntropy(real("mirostat-ent", "5", 0, 100,
                                                "Target entropy (tau) of Mirostat, in bits"));
constexpr Setting<double> kMirostatRate(real("mirostat-lr", "0.1", 0, 10,
                                             "Learning rate (eta) of Mirostat"));
constexpr Setting<double> kRepeatPenalty(real("repeat-penalty", "1", 0.01, 10,
                                              "Penalty on logits of tokens that occurred: divides "
                                              "positive ones, multiplies negative ones; 1: off"));
constexpr Setting<double> kFrequencyPenalty(
    real("frequency-penalty", "0", -10, 10,
         "Subtracted from a token's logit for each time it occurred; 0: off"));
constexpr Setting<double> kPresencePenalty(real(
    "presence-penalty", "0", -10, 10, "Subtracted from a token's logit if it occurred; 0: off"));
constexpr Setting<int64_t> kPenaltyWindow(
    integer("repeat-last-n", "", "64", -1, 1 << 24,
            "Number of last tokens that the penalties consider; 0: none, -1: the whole sequence"));
constexpr Setting<double> kDryMultiplier(
    real("dry-multiplier", "0", 0, 100,
         "Strength of the DRY penalty on tokens that would continue a repetition; 0: off"));
constexpr Setting<double> kDryBase(real(
    "dry-base", "1.75", 0, 100, "Factor by which the DRY penalty grows with each repeated token"));
constexpr Setting<int64_t> kDryAllowedLength(integer(
    "dry-allowed-length", "", "2", 0, 1 << 24, "Length of repetitions that DRY does not penalise"));
constexpr Setting<int64_t> kDryWindow(
    integer("dry-penalty-last-n", "", "-1", -1, 1 << 24,
            "Number of last tokens that DRY considers; 0: none, -1: the whole sequence"));
constexpr Setting<std::string> kDryBreakers(
    text("dry-sequence-breakers", "", R"(["\n", ":", "\"", "*"])",
         "Strings at which DRY ends a repetition, as a JSON list"));
constexpr Setting<std::string> kLogitBias(
    text("logit-bias", "", "",
         "Values added to logits by token id, such as 1504+1.5,2990-inf (-inf: never)"));
constexpr Setting<int64_t> kSeed(
    integer("seed", "s", "-1", -1, 0x1p53,
            "Random seed, which makes a generation repeatable; -1: a new one each time"));

constexpr Setting<std::string> kEngram(
    text("engram", "", "",
         "N-gram tables to mix into the model's predictions, separated by commas; see `chimere "
         "engram`"));
constexpr Setting<std::string> kEngramGate(text(
    "engram-gate", "", "learned",
    "Weight of the tables: learned (a trained gate) or always (the Kneser-Ney estimate)", kGates));
constexpr Setting<bool> kEngramThinking({"engram-thinking",
                                         {},
                                         "0",
                                         0,
                                         0,
                                         {},
                                         "Use the n-gram tables in reasoning too",
                                         Kind::kSwitch,
                                         '\0',
                                         {}});
constexpr Setting<bool> kAssumeTokenizer(
    {"assume-tokenizer",
     {},
     "0",
     0,
     0,
     {},
     "Accept n-gram tables that name no tokenizer (version 1) as made for this model's",
     Kind::kSwitch,
     '\0',
     {}});

constexpr Setting<bool> kQuiet({"quiet",
                                "q",
                                "0",
                                0,
                                0,
                                {},
                                "Nothing but results, warnings and errors: no statistics, progress "
                                "or reasoning on standard error",
                                Kind::kSwitch,
                                '\0',
                                {}});

constexpr Setting<std::string> kHost(text(
    "host", "", "127.0.0.1", "Address to listen on; addresses other than loopback need --keys"));
constexpr Setting<int64_t> kPort(integer("port", "", "8080", 0, 65535,
                                         "Port to listen on; 0: any free port"));
constexpr Setting<std::string> kAlias(text("alias", "", "",
                                           "Model name in the API; default: the name of its file"));
constexpr Setting<std::string> kEmbeddingModel(text(
    "embedding-model", "", "", "Embedding model for /v1/embeddings, served beside the main model"));
constexpr Setting<std::string> kKeys(
    text("keys", "", "", "File of API keys that clients must present (`chimere keys`)"));
constexpr Setting<std::string> kTlsCertificate(
    text("tls-certificate", "", "", "PEM file with the certificate chain, for HTTPS"));
constexpr Setting<std::string> kTlsKey(text("tls-key", "", "",
                                            "PEM file with the private key of --tls-certificate"));
constexpr Setting<std::string> kAllowedHosts(
    text("allowed-hosts", "", "",
         "Host names that clients may use for this server, separated by commas; IP addresses are "
         "always allowed"));
constexpr Setting<std::string> kCorsOrigins(
    text("cors-origins", "", "",
         "Origins whose pages may call the server, such as https://chat.example.org, separated by "
         "commas; *: all"));
constexpr Setting<int64_t> kMaxRunning(integer(
    "max-running", "", "32", 1, 1024, "Maximum number of generations that run at the same time"));
constexpr Setting<int64_t> kMaxQueue(
    integer("max-queue", "", "256", 0, 1 << 20,
            "Maximum number of requests waiting; more are refused with status 429"));
constexpr Setting<int64_t> kMaxConnections(
    integer("max-connections", "", "4096", 1, 1 << 20,
            "Maximum number of open connections; more are closed"));
constexpr Setting<int64_t> kMaxBody(integer("max-body", "", "16", 1, 1024,
                                            "Maximum size of a request body, in MiB"));
constexpr Setting<double> kHeaderTimeout(
    real("header-timeout", "15", 0.05, 3600,
         "Seconds until a request's header must have arrived; its body has four times as long"));
constexpr Setting<double> kIdleTimeout(
    real("idle-timeout", "75", 0.05, 86400,
         "Seconds after which a connection without a request is closed"));
constexpr Setting<int64_t> kGrace(integer(
    "grace", "", "30", 0, 86400, "Seconds that running generations have to finish after SIGTERM"));
constexpr Setting<bool> kLogPrompts(
    {"log-prompts", {}, "0", 0, 0, {}, "Log request bodies", Kind::kSwitch, '\0', {}});

std::span<const SettingInfo* const> all() {
  static constexpr auto kAll = std::to_array<const SettingInfo*>({&kModel,
                                                                  &kModels,
                                                                  &kHubEndpoint,
                                                                  &kHubToken,
                                                                  &kOffline,
                                                                  &kBackend,
                                                                  &kVramBudget,
                                                                  &kCudaProfile,
                                                                  &kCpuExperts,
                                                                  &kThreads,
                                                                  &kContext,
                                                                  &kStateMemory,
                                                                  &kCacheK,
                                                                  &kCacheV,
                                                                  &kExpertTopP,
                                                                  &kStateFolder,
                                                                  &kCacheStates,
                                                                  &kCacheMemory,
                                                                  &kCacheDisk,
                                                                  &kCacheHours,
                                                                  &kSpeculate,
                                                                  &kReasoning,
                                                                  &kMaxTokens,
                                                                  &kSamplers,
                                                                  &kTemperature,
                                                                  &kTopK,
                                                                  &kTopP,
                                                                  &kMinP,
                                                                  &kTypical,
                                                                  &kTopNSigma,
                                                                  &kXtcProbability,
                                                                  &kXtcThreshold,
                                                                  &kDynatempRange,
                                                                  &kDynatempExponent,
                                                                  &kMirostat,
                                                                  &kMirostatEntropy,
                                                                  &kMirostatRate,
                                                                  &kRepeatPenalty,
                                                                  &kFrequencyPenalty,
                                                                  &kPresencePenalty,
                                                                  &kPenaltyWindow,
                                                                  &kDryMultiplier,
                                                                  &kDryBase,
                                                                  &kDryAllowedLength,
                                                                  &kDryWindow,
                                                                  &kDryBreakers,
                                                                  &kLogitBias,
                                                                  &kSeed,
                                                                  &kEngram,
                                                                  &kEngramGate,
                                                                  &kEngramThinking,
                                                                  &kAssumeTokenizer,
                                                                  &kQuiet,
                                                                  &kHost,
                                                                  &kPort,
                                                                  &kAlias,
                                                                  &kEmbeddingModel,
                                                                  &kKeys,
                                                                  &kTlsCertificate,
                                                                  &kTlsKey,
                                                                  &kAllowedHosts,
                                                                  &kCorsOrigins,
                                                                  &kMaxRunning,
                                                                  &kMaxQueue,
                                                                  &kMaxConnections,
                                                                  &kMaxBody,
                                                                  &kHeaderTimeout,
                                                                  &kIdleTimeout,
                                                                  &kGrace,
                                                                  &kLogPrompts});
  return kAll;
}

const SettingInfo* find(std::string_view name) {
  const auto settings = all();
  const auto it = std::ranges::find_if(settings, [&](const auto* s) { return s->name == name; });
  return it == settings.end() ? nullptr : *it;
}

std::string variable_name(const SettingInfo& setting) {
  if (!setting.variable.empty()) return std::string(setting.variable);
  std::string name = "CHIMERE_";
  for (const char c : setting.name) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

namespace {

std::string number_text(double v) {
  std::array<char, 32> buffer{};
  const auto end = v == std::rint(v)
                       ? std::to_chars(buffer.begin(), buffer.end(), static_cast<int64_t>(v)).ptr
                       : std::to_chars(buffer.begin(), buffer.end(), v).ptr;
  return {buffer.data(), end};
}

}  // namespace

std::string range_text(const SettingInfo& setting) {
  if (setting.kind == Kind::kSwitch) return "one of 1, 0, true, false, yes, no, on, off";
  if (setting.kind != Kind::kText) {
    return "from " + number_text(setting.min) + " to " + number_text(setting.max);
  }
  if (setting.choices.empty()) return "";
  std::string out = "one of ";
  if (setting.separator != '\0') {
    out = "a list, separated by '" + std::string(1, setting.separator) + "', of ";
  }
  for (size_t i = 0; i < setting.choices.size(); ++i) {
    if (i > 0) out += ", ";
    out += setting.choices[i];
  }
  return out;
}

}  // namespace settings

namespace {

std::string_view trim(std::string_view s) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

template <typename T>
bool parse_whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Settings::Settings() {
  for (const SettingInfo* s : settings::all())
    values_.emplace(s->name, parse(*s, s->default_value, "default").value());
}

Result<Settings::Value> Settings::parse(const SettingInfo& setting, std::string_view text,
                                        std::string_view source) {
  const auto refuse = [&](const std::string& why) {
    return invalid_argument("The value '" + std::string(text) + "' of " + std::string(source) +
                            " cannot be used: " + why + ".");
  };
  switch (setting.kind) {
    case SettingInfo::Kind::kInteger: {
      int64_t v = 0;
      if (!parse_whole(text, v))
        return refuse("it must be a whole number " + settings::range_text(setting));
      const auto d = static_cast<double>(v);
      if (d < setting.min || d > setting.max)
        return refuse("it must be " + settings::range_text(setting));
      return Value(v);
    }
    case SettingInfo::Kind::kReal: {
      double v = 0;
      if (!parse_whole(text, v))
        return refuse("it must be a number " + settings::range_text(setting));
      const bool within = setting.min <= v && v <= setting.max;  // false for NaN
      if (!within) return refuse("it must be " + settings::range_text(setting));
      return Value(v);
    }
    case SettingInfo::Kind::kSwitch: {
      std::string word(text);
      std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
      if (word == "1" || word == "true" || word == "yes" || word == "on") return Value(true);
      // An empty environment variable counts as not set.
      if (word.empty() || word == "0" || word == "false" || word == "no" || word == "off")
        return Value(false);
      return refuse("it must be " + settings::range_text(setting));
    }
    case SettingInfo::Kind::kText: {
      std::string_view rest = text;
      while (!setting.choices.empty()) {
        const size_t end = setting.separator == '\0'
                               ? rest.size()
                               : std::min(rest.find(setting.separator), rest.size());
        if (std::ranges::find(setting.choices, rest.substr(0, end)) == setting.choices.end())
          return refuse("it must be " + settings::range_text(setting));
        if (end == rest.size()) break;
        rest.remove_prefix(end + 1);
      }
      return Value(std::string(text));
    }
  }
  return refuse("its setting has an unknown type");
}

Status Settings::set(const SettingInfo& setting, std::string_view text, std::string_view source) {
  CHIMERE_TRY(values_.at(setting.name), parse(setting, text, source));
  return {};
}

Status Settings::load_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return not_found("The config file '" + path + "' cannot be read.");
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    const std::string where = path + ":" + std::to_string(number);
    const size_t equals = content.find('=');
    if (equals == std::string_view::npos) {
      return invalid_argument(where + ": '" + std::string(content) +
                              "' is not of the form 'key = value'.");
    }
    const std::string_view key = trim(content.substr(0, equals));
    const SettingInfo* setting = settings::find(key);
    if (setting == nullptr) {
      return invalid_argument(where + ": there is no setting '" + std::string(key) +
                              "'; `chimere run --help` lists them.");
    }
    CHIMERE_CHECK_OK(
        set(*setting, trim(content.substr(equals + 1)), where + " (" + std::string(key) + ")"));
  }
  return {};
}

Status Settings::load_environment(const char* const* environment) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view variable = entry.substr(0, equals);
    const auto all = settings::all();
    const auto it = std::ranges::find_if(
        all, [&](const auto* s) { return settings::variable_name(*s) == variable; });
    if (it == all.end()) {
      if (!entry.starts_with("CHIMERE_")) continue;
      return invalid_argument(
          "The environment variable " + std::string(variable) +
          " is not a setting; unset it, or see `chimere run --help` for a list.");
    }
    CHIMERE_CHECK_OK(set(**it, entry.substr(std::min(equals + 1, entry.size())), variable));
  }
  return {};
}

}  // namespace chimere
