// The table of metrics. docs/metrics.md lists it.
#ifndef CHIMERE_SERVING_METRICS_TABLE_H_
#define CHIMERE_SERVING_METRICS_TABLE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/service.h"
#include "serving/key_usage.h"
#include "serving/model_registry.h"

namespace chimere::serving {

/// What the metrics of an instant are read from.
struct MetricSources {
  const engine::ServiceStats& stats;  ///< of the model, with MetricInfo::Of::kEngine
  const ModelStatus& model;           ///< not with MetricInfo::Of::kServer
  int64_t connections = 0;
  std::span<const KeyUsage::Budget> keys = {};
};

/// Upper bounds of the buckets with cumulative counts; the last bound is infinity.
struct HistogramValue {
  std::vector<std::pair<double, uint64_t>> buckets;
  uint64_t count = 0;
  double sum = 0;
};

struct MetricInfo {
  enum class Type : uint8_t { kCounter, kGauge, kHistogram };
  /// What has a value: each loaded model that generates text, each model, or the server. The first
  /// two have a label `model`, after those of the row.
  enum class Of : uint8_t { kEngine, kModel, kServer };
  using Labelled = std::vector<std::pair<std::string_view, double>>;  ///< by the label's value

  std::string_view name;  ///< ends in its unit, if it has one; then, for a counter, _total
  Type type = Type::kCounter;
  std::string_view help = {};                   ///< one sentence
  std::array<std::string_view, 2> labels = {};  ///< their names; empty: none
  /// One of the three, or none: counted by Metrics::add().
  double (*value)(const MetricSources&) = nullptr;
  Labelled (*labelled)(const MetricSources&) = nullptr;
  HistogramValue (*histogram)(const MetricSources&) = nullptr;
  Of of = Of::kEngine;

  constexpr bool counted() const {
    return value == nullptr && labelled == nullptr && histogram == nullptr;
  }
};

namespace metric_rows {

using Type = MetricInfo::Type;
using Of = MetricInfo::Of;
using Labelled = MetricInfo::Labelled;
using From = MetricSources;

template <typename T>
double number(T value) {
  return static_cast<double>(value);
}

template <const auto& kUpper>
HistogramValue buckets(const engine::BasicHistogram<kUpper>& h) {
  HistogramValue out{{}, h.count, h.sum};
  uint64_t below = 0;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    below += h.counts[i];
    out.buckets.emplace_back(
        i < kUpper.size() ? kUpper[i] : std::numeric_limits<double>::infinity(), below);
  }
  return out;
}

/// Those of keys with a limit, or of all.
template <int64_t KeyUsage::Budget::*kMember, bool kLimited>
Labelled by_key(const From& s) {
  Labelled out;
  for (const KeyUsage::Budget& key : s.keys) {
    if (!kLimited || key.limit > 0) out.emplace_back(key.key, number(key.*kMember));
  }
  return out;
}

template <size_t kTiers>
Labelled by_tier(const uint64_t (&counts)[kTiers]) {
  Labelled out;
  for (size_t tier = 0; tier < kTiers; ++tier) {
    out.emplace_back(engine::cache_tier_name(static_cast<engine::CacheTier>(tier)),
                     number(counts[tier]));
  }
  return out;
}

template <int64_t engine::DraftCounts::*kMember>
Labelled by_source(const From& s) {
  Labelled out;
  for (const engine::DraftCounts& of : s.stats.engine.speculation.sources) {
    out.emplace_back(of.source, number(of.*kMember));
  }
  return out;
}

inline constexpr auto kMetrics = std::to_array<MetricInfo>({
    {.name = "chimere_http_requests_total",
     .help = "Requests, by route and status.",
     .labels = {"route", "status"},
     .of = Of::kServer},
    {.name = "chimere_tokens_total",
     .help = "Tokens of finished requests, by kind.",
     .labels = {"kind"},
     .of = Of::kServer},
    {.name = "chimere_connections",
     .type = Type::kGauge,
     .help = "Open connections.",
     .value = [](const From& s) { return number(s.connections); },
     .of = Of::kServer},
    {.name = "chimere_key_day_tokens",
     .type = Type::kGauge,
     .help = "Tokens that the API key has used today (UTC), by the key's name.",
     .labels = {"key"},
     .labelled = &by_key<&KeyUsage::Budget::tokens, false>,
     .of = Of::kServer},
    {.name = "chimere_key_day_tokens_limit",
     .type = Type::kGauge,
     .help = "Tokens that the API key may use in a day, if it has such a limit.",
     .labels = {"key"},
     .labelled = &by_key<&KeyUsage::Budget::limit, true>,
     .of = Of::kServer},
    {.name = "chimere_model_ready",
     .type = Type::kGauge,
     .help = "1 if the model is loaded, else 0.",
     .value = [](const From& s) { return s.model.state == ModelStatus::State::kReady ? 1.0 : 0.0; },
     .of = Of::kModel},
    {.name = "chimere_model_memory_bytes",
     .type = Type::kGauge,
     .help = "Memory of the model: weights, and the limits of states and prefix cache.",
     .value = [](const From& s) { return number(s.model.bytes); },
     .of = Of::kModel},
    {.name = "chimere_model_requests",
     .type = Type::kGauge,
     .help = "Requests that use the model.",
     .value = [](const From& s) { return number(s.model.requests); },
     .of = Of::kModel},
    {.name = "chimere_model_requests_waiting",
     .type = Type::kGauge,
     .help = "Requests that wait until the model is loaded.",
     .value = [](const From& s) { return number(s.model.waiting); },
     .of = Of::kModel},
    {.name = "chimere_model_loads_total",
     .help = "Times that the model was loaded.",
     .value = [](const From& s) { return number(s.model.loads); },
     .of = Of::kModel},
    {.name = "chimere_model_load_seconds_total",
     .help = "Time that loading it took.",
     .value = [](const From& s) { return s.model.load_seconds; },
     .of = Of::kModel},
    {.name = "chimere_model_load_failures_total",
     .help = "Times that the model could not be loaded.",
     .value = [](const From& s) { return number(s.model.failures); },
     .of = Of::kModel},
    {.name = "chimere_model_evictions_total",
     .help = "Times that the model was evicted.",
     .value = [](const From& s) { return number(s.model.evictions); },
     .of = Of::kModel},
    {.name = "chimere_requests_running",
     .type = Type::kGauge,
     .help = "Choices with a state in memory.",
     .value = [](const From& s) { return number(s.stats.engine.running); }},
    {.name = "chimere_requests_waiting",
     .type = Type::kGauge,
     .help = "Choices waiting for memory or a free slot.",
     .value = [](const From& s) { return number(s.stats.engine.waiting); }},
    {.name = "chimere_requests_suspended",
     .type = Type::kGauge,
     .help = "Waiting choices that were suspended because the state store was full.",
     .value = [](const From& s) { return number(s.stats.engine.suspended); }},
    {.name = "chimere_requests_in_flight",
     .type = Type::kGauge,
     .help = "Choices accepted and not finished.",
     .value = [](const From& s) { return number(s.stats.in_flight); }},
    {.name = "chimere_requests_accepted_total",
     .help = "Choices accepted by the engine.",
     .value = [](const From& s) { return number(s.stats.accepted); }},
    {.name = "chimere_requests_finished_total",
     .help = "Choices that ended, for any reason.",
     .value = [](const From& s) { return number(s.stats.finished); }},
    {.name = "chimere_requests_refused_total",
     .help = "Choices refused because the queue was full.",
     .value = [](const From& s) { return number(s.stats.refused); }},
    {.name = "chimere_requests_cancelled_total",
     .help = "Choices that were cancelled.",
     .value = [](const From& s) { return number(s.stats.cancelled); }},
    {.name = "chimere_requests_failed_total",
     .help = "Choices that failed.",
     .value = [](const From& s) { return number(s.stats.failed); }},
    {.name = "chimere_steps_total",
     .help = "Forward passes.",
     .value = [](const From& s) { return number(s.stats.engine.steps); }},
    {.name = "chimere_prompt_tokens_computed_total",
     .help = "Prompt tokens computed.",
     .value = [](const From& s) { return number(s.stats.engine.prompt_tokens); }},
    {.name = "chimere_generation_tokens_total",
     .help = "Tokens sampled.",
     .value = [](const From& s) { return number(s.stats.engine.generated_tokens); }},
    {.name = "chimere_expert_rows_total",
     .help = "Generated tokens times expert layers, with --expert-top-p.",
     .value = [](const From& s) { return number(s.stats.engine.experts.rows); }},
    {.name = "chimere_experts_used_total",
     .help = "Experts used by these rows.",
     .value = [](const From& s) { return number(s.stats.engine.experts.experts); }},
    {.name = "chimere_evictions_total",
     .help = "Requests suspended because the state store was full.",
     .value = [](const From& s) { return number(s.stats.engine.evictions); }},
    {.name = "chimere_constraint_masks_beside_total",
     .help = "Token masks of constraints that took too much work for a step and were computed on "
             "another thread.",
     .value = [](const From& s) { return number(s.stats.engine.masks_beside); }},
    {.name = "chimere_drafts_verified_total",
     .help = "Drafts that were verified, by source.",
     .labels = {"source"},
     .labelled = &by_source<&engine::DraftCounts::drafted>},
    {.name = "chimere_drafts_accepted_total",
     .help = "Drafts that were accepted, by source.",
     .labels = {"source"},
     .labelled = &by_source<&engine::DraftCounts::accepted>},
    {.name = "chimere_draft_memory_shortages_total",
     .help =
         "Generations that went without drafts of a drafter, at least once, for want of memory.",
     .value = [](const From& s) { return number(s.stats.engine.speculation.memory_shortages); }},
    {.name = "chimere_prefix_cache_requests_total",
     .help = "Requests, by the cache tier of their prompt's prefix.",
     .labels = {"tier"},
     .labelled = [](const From& s) { return by_tier(s.stats.cache.hits); }},
    {.name = "chimere_prefix_cache_tokens_total",
     .help = "Prompt tokens taken from the cache, by tier.",
     .labels = {"tier"},
     .labelled = [](const From& s) { return by_tier(s.stats.cache.tokens); }},
    {.name = "chimere_prefix_cache_warmup_tokens_total",
     .help = "Tokens computed while idle, for later prompts to continue from.",
     .value = [](const From& s) { return number(s.stats.engine.warmup_tokens); }},
    {.name = "chimere_prefix_cache_warmups_total",
     .help = "Warm-ups that have ended.",
     .labels = {"result"},
     .labelled =
         [](const From& s) {
           return Labelled{{"computed", number(s.stats.engine.warmups_computed)},
                           {"cached", number(s.stats.engine.warmups_cached)},
                           {"dropped", number(s.stats.engine.warmups_dropped)}};
         }},
    {.name = "chimere_prefix_cache_warmups_waiting",
     .type = Type::kGauge,
     .help = "Warm-ups that wait for an idle moment or are being computed.",
     .value = [](const From& s) { return number(s.stats.engine.warmups_waiting); }},
    {.name = "chimere_prefix_cache_device_states",
     .type = Type::kGauge,
     .help = "Prefix states in the state store.",
     .value = [](const From& s) { return number(s.stats.cache.device_states); }},
    {.name = "chimere_prefix_cache_disk_files",
     .type = Type::kGauge,
     .help = "Files of prefix states.",
     .value = [](const From& s) { return number(s.stats.cache.disk_files); }},
    {.name = "chimere_prefix_cache_dropped_total",
     .help = "Prefix states evicted from the last tier that held them.",
     .value = [](const From& s) { return number(s.stats.cache.dropped); }},
    {.name = "chimere_prefix_cache_rejected_files_total",
     .help = "Files of prefix states that were damaged or of another model.",
     .value = [](const From& s) { return number(s.stats.cache.rejected_files); }},
    {.name = "chimere_prefix_cache_failed_writes_total",
     .help = "Files of prefix states that could not be written.",
     .value = [](const From& s) { return number(s.stats.cache.failed_writes); }},
    {.name = "chimere_time_to_first_token_seconds",
     .type = Type::kHistogram,
     .help = "From submission to the engine to the first token.",
     .histogram = [](const From& s) { return buckets(s.stats.first_token); }},
    {.name = "chimere_inter_token_seconds",
     .type = Type::kHistogram,
     .help = "Between two tokens of the same request.",
     .histogram = [](const From& s) { return buckets(s.stats.inter_token); }},
    {.name = "chimere_batch_rows",
     .type = Type::kHistogram,
     .help = "Decoding requests per step.",
     .histogram = [](const From& s) { return buckets(s.stats.engine.batch); }},
    {.name = "chimere_memory_bytes",
     .type = Type::kGauge,
     .help = "State memory in use and its limits.",
     .labels = {"kind"},
     .labelled =
         [](const From& s) {
           return Labelled{{"kv", number(s.stats.kv_bytes)},
                           {"kv_limit", number(s.stats.kv_limit)},
                           {"recurrent", number(s.stats.slot_bytes)},
                           {"recurrent_limit", number(s.stats.slot_limit)},
                           {"resident", number(s.stats.resident_bytes)},
                           {"resident_limit", number(s.stats.resident_limit)},
                           {"prefix_memory", number(s.stats.cache.memory_bytes)},
                           {"prefix_disk", number(s.stats.cache.disk_bytes)}};
         }},
});

}  // namespace metric_rows

using metric_rows::kMetrics;

/// A row that Metrics::add() counts. The name of no such row does not compile.
class CountedMetric {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal becomes a checked name.
  consteval CountedMetric(const char* name) {
    while (index_ < kMetrics.size() && kMetrics[index_].name != name) ++index_;
    if (index_ == kMetrics.size()) throw "the table has no such metric";
    if (!kMetrics[index_].counted()) throw "the metric is not counted by add()";
  }
  size_t index() const { return index_; }

 private:
  size_t index_ = 0;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_METRICS_TABLE_H_
