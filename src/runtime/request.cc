#include "runtime/request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/dry_breakers.h"
#include "engine/engram_mixture.h"
#include "runtime/engram_tables.h"
#include "runtime/file_defaults.h"

namespace chimere::runtime {
namespace {

/// "1504+1.5,2990-inf".
Result<std::vector<sampling::LogitBias>> parse_biases(std::string_view text) {
  std::vector<sampling::LogitBias> biases;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    sampling::LogitBias bias;
    const char* const end = item.data() + item.size();
    const auto [sign, bad_id] = std::from_chars(item.data(), end, bias.id);
    const bool signed_value =
        bad_id == std::errc() && sign != end && (*sign == '+' || *sign == '-');
    if (!signed_value || bias.id < 0) {
      return invalid_argument(
          "'" + std::string(item) +
          "' is no bias of --logit-bias: give a token id, + or -, and a number, "
          "like 1504+1.5 or 1504-inf.");
    }
    const auto [last, bad_value] = std::from_chars(sign + 1, end, bias.bias);
    if (*sign == '-') bias.bias = -bias.bias;
    const bool usable = bad_value == std::errc() && last == end && bias.bias == bias.bias &&
                        bias.bias < std::numeric_limits<float>::infinity();
    if (!usable) {
      return invalid_argument("'" + std::string(item) +
                              "' is no bias of --logit-bias: what follows the id must be a number "
                              "with its sign, or -inf.");
    }
    biases.push_back(bias);
  }
  return biases;
}

Result<std::vector<std::string>> parse_breakers(const std::string& text) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  const bool texts = list.is_array() && std::ranges::all_of(list, [](const nlohmann::json& item) {
                       return item.is_string();
                     });
  if (!texts) {
    return invalid_argument(
        "The value of --dry-sequence-breakers must be a JSON list of strings, like [\"\\n\", "
        "\":\"].");
  }
  return list.get<std::vector<std::string>>();
}

}  // namespace

uint64_t seed_from(const Settings& settings) {
  const int64_t seed = settings.get(settings::kSeed);
  return seed >= 0 ? static_cast<uint64_t>(seed) : std::random_device{}();
}

Result<Reasoning> reasoning_from(const Settings& settings) {
  const std::string& text = settings.get(settings::kReasoning);
  if (text == "auto") return Reasoning{};
  if (text == "none") return Reasoning{.wanted = false};
  if (text == "low") return Reasoning{.wanted = true, .budget = 256};
  if (text == "medium") return Reasoning{.wanted = true, .budget = 1024};
  if (text == "high") return Reasoning{.wanted = true, .budget = 8192, .least = 256};
  Reasoning number = {.wanted = true};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number.budget);
  if (error != std::errc() || last != end || number.budget < 0) {
    return invalid_argument("The value '" + text +
                            "' of --reasoning cannot be used: it must be auto, none, low, medium, "
                            "high or a number of tokens from 0 on.");
  }
  return number;
}

Result<std::optional<engine::ThinkingParams>> RequestFactory::thinking(const Settings& settings) {
  CHIMERE_TRY(const Reasoning reasoning, reasoning_from(settings));
  std::optional<engine::ThinkingParams> out;
  if (reasoning.wanted != true) return out;
  {
    const std::scoped_lock lock(mutex_);
    if (!thinking_) thinking_ = engine::thinking_params(tokenizer_, tags_, 0);
    out = *thinking_;
  }
  if (!out) {
    return unsupported(
        "This model has no tokens that begin and end its reasoning, so it cannot be limited; "
        "leave --reasoning at auto or none.");
  }
  out->budget = reasoning.budget;
  out->least = reasoning.least;
  return out;
}

std::shared_ptr<const sampling::DryBreakers> RequestFactory::breakers(
    const std::vector<std::string>& texts) {
  const std::scoped_lock lock(mutex_);
  if (breakers_.tokens == nullptr || breakers_.texts != texts) {
    breakers_ = {texts, engine::make_dry_breakers(tokenizer_, texts)};
  }
  return breakers_.tokens;
}

Result<engram::Memory::Tables> RequestFactory::tables(const Settings& settings) {
  engram::Memory::Tables out;
  for (const std::string& path : split_paths(settings.get(settings::kEngram))) {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(path, error);
    const std::scoped_lock lock(mutex_);
    OpenTable& open = tables_[path];
    if (error || open.table == nullptr || open.time != time) {
      CHIMERE_TRY(auto opened, open_tables({&path, 1}, settings, tokenizer_));
      open = {std::move(opened.front()), time};
    }
    out.push_back(open.table);
  }
  return out;
}

Result<engine::Request> RequestFactory::make(const Settings& settings,
                                             const engram::Memory::Tables& more) {
  engine::Request request;
  request.max_tokens = static_cast<int32_t>(settings.get(settings::kMaxTokens));
  // The setting has checked the name.
  request.speculation = engine::Speculation::named(settings.get(settings::kSpeculate))
                            .value_or(engine::Speculation::off());
  CHIMERE_TRY(request.thinking, thinking(settings));
  request.reasoning_tags = tags_;
  request.sampling = sampling::params_from(settings);
  sampling::SamplingParams& s = request.sampling;
  CHIMERE_TRY(const auto texts, parse_breakers(settings.get(settings::kDryBreakers)));
  if (s.dry.active()) s.dry.breakers = breakers(texts);
  CHIMERE_TRY(s.logit_bias, parse_biases(settings.get(settings::kLogitBias)));
  s.seed = seed_from(settings);
  CHIMERE_TRY(auto all, tables(settings));
  all.insert(all.end(), more.begin(), more.end());
  if (!all.empty()) {
    const engine::EngramOptions options{gating_of(settings),
                                        settings.get(settings::kEngramThinking)};
    CHIMERE_TRY(s.auxiliary, engine::EngramMixture::create(std::move(all), options, tags_));
  }
  return request;
}

Result<engine::Request> request_from(const Settings& settings, const LoadedModel& loaded,
                                     const text::ReasoningTags& tags) {
  CHIMERE_TRY(const Settings own, with_file_defaults(settings, *loaded.file));
  CHIMERE_TRY(engine::Request request, RequestFactory(*loaded.tokenizer, tags).make(own));
  request.adapters = loaded.adapters->defaults();
  return request;
}

}  // namespace chimere::runtime
