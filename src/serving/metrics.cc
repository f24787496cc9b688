#include "serving/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>
#include <vector>

namespace chimere::serving {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily single(std::string name, std::string help, MetricType type, double value) {
  ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return {std::move(name), std::move(help), type, {std::move(metric)}};
}

MetricFamily counter(std::string name, std::string help, double value) {
  return single(std::move(name), std::move(help), MetricType::Counter, value);
}

MetricFamily gauge(std::string name, std::string help, double value) {
  return single(std::move(name), std::move(help), MetricType::Gauge, value);
}

template <const auto& kUpper>
MetricFamily histogram(std::string name, std::string help,
                       const engine::BasicHistogram<kUpper>& h) {
  ClientMetric metric;
  uint64_t below = 0;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    below += h.counts[i];
    const double bound = i < kUpper.size() ? kUpper[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({below, bound});
  }
  metric.histogram.sample_count = h.count;
  metric.histogram.sample_sum = h.sum;
  return {std::move(name), std::move(help), MetricType::Histogram, {std::move(metric)}};
}

template <size_t kTiers>
MetricFamily by_tier(std::string name, std::string help, const uint64_t (&counts)[kTiers]) {
  MetricFamily family{std::move(name), std::move(help), MetricType::Counter, {}};
  for (size_t tier = 0; tier < kTiers; ++tier) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({"tier", engine::cache_tier_name(static_cast<engine::CacheTier>(tier))});
    metric.counter.value = static_cast<double>(counts[tier]);
  }
  return family;
}

MetricFamily by_label(std::string name, std::string help, MetricType type, const char* label,
                      const std::vector<std::pair<const char*, double>>& values) {
  MetricFamily family{std::move(name), std::move(help), type, {}};
  for (const auto& [kind, value] : values) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({label, kind});
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  }
  return family;
}

MetricFamily memory(const engine::ServiceStats& s) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  return by_label("chimere_memory_bytes", "State memory in use and its limits.", MetricType::Gauge,
                  "kind",
                  {{"kv", number(s.kv_bytes)},
                   {"kv_limit", number(s.kv_limit)},
                   {"recurrent", number(s.slot_bytes)},
                   {"recurrent_limit", number(s.slot_limit)},
                   {"resident", number(s.resident_bytes)},
                   {"resident_limit", number(s.resident_limit)},
                   {"prefix_memory", number(s.cache.memory_bytes)},
                   {"prefix_disk", number(s.cache.disk_bytes)}});
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("chimere_http_requests_total")
                                                          .Help("Requests, by route and status.")
                                                          .Register(registry);
  prometheus::Family<prometheus::Counter>& tokens =
      prometheus::BuildCounter()
          .Name("chimere_tokens_total")
          .Help("Tokens of finished requests, by kind.")
          .Register(registry);
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const std::string& route, int status) {
  families_->requests.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::count_response(const GenerationReport& report) {
  const auto add = [&](const char* kind, int64_t tokens) {
    families_->tokens.Add({{"kind", kind}}).Increment(static_cast<double>(tokens));
  };
  add("prompt", report.usage.prompt_tokens);
  add("cached", report.usage.cached_tokens);
  add("completion", report.usage.completion_tokens);
  add("reasoning", report.usage.reasoning_tokens);
  add("accepted_draft", report.usage.accepted_drafts);
  add("rejected_draft", report.usage.rejected_drafts);
}

void Metrics::count_embeddings(int64_t tokens) {
  families_->tokens.Add({{"kind", "embedding"}}).Increment(static_cast<double>(tokens));
}

std::string Metrics::text(const engine::ServiceStats& s, int64_t connections) const {
  std::vector<MetricFamily> all = families_->registry.Collect();
  const auto number = [](auto value) { return static_cast<double>(value); };
  all.push_back(gauge("chimere_connections", "Open connections.", number(connections)));
  all.push_back(gauge("chimere_requests_running", "Choices with a state in memory.",
                      number(s.engine.running)));
  all.push_back(gauge("chimere_requests_waiting", "Choices waiting for memory or a free slot.",
                      number(s.engine.waiting)));
  all.push_back(gauge("chimere_requests_suspended",
                      "Waiting choices that were suspended because the state store was full.",
                      number(s.engine.suspended)));
  all.push_back(gauge("chimere_requests_in_flight", "Choices accepted and not finished.",
                      number(s.in_flight)));
  all.push_back(counter("chimere_requests_accepted_total", "Choices accepted by the engine.",
                        number(s.accepted)));
  all.push_back(counter("chimere_requests_finished_total", "Choices that ended, for any reason.",
                        number(s.finished)));
  all.push_back(counter("chimere_requests_refused_total",
                        "Choices refused because the queue was full.", number(s.refused)));
  all.push_back(counter("chimere_requests_cancelled_total", "Choices that were cancelled.",
                        number(s.cancelled)));
  all.push_back(counter("chimere_requests_failed_total", "Choices that failed.", number(s.failed)));
  all.push_back(counter("chimere_steps_total", "Forward passes.", number(s.engine.steps)));
  all.push_back(counter("chimere_prompt_tokens_computed_total", "Prompt tokens computed.",
                        number(s.engine.prompt_tokens)));
  all.push_back(counter("chimere_generation_tokens_total", "Tokens sampled.",
                        number(s.engine.generated_tokens)));
  all.push_back(counter("chimere_expert_rows_total",
                        "Generated tokens times expert layers, with --expert-top-p.",
                        number(s.engine.experts.rows)));
  all.push_back(counter("chimere_experts_used_total", "Experts used by these rows.",
                        number(s.engine.experts.experts)));
  all.push_back(counter("chimere_evictions_total",
                        "Requests suspended because the state store was full.",
                        number(s.engine.evictions)));
  all.push_back(by_tier("chimere_prefix_cache_requests_total",
                        "Requests, by the cache tier of their prompt's prefix.", s.cache.hits));
  all.push_back(by_tier("chimere_prefix_cache_tokens_total",
                        "Prompt tokens taken from the cache, by tier.", s.cache.tokens));
  all.push_back(counter("chimere_prefix_cache_warmup_tokens_total",
                        "Tokens computed while idle, for later prompts to continue from.",
                        number(s.engine.warmup_tokens)));
  all.push_back(by_label("chimere_prefix_cache_warmups_total", "Warm-ups that have ended.",
                         MetricType::Counter, "result",
                         {{"computed", number(s.engine.warmups_computed)},
                          {"cached", number(s.engine.warmups_cached)},
                          {"dropped", number(s.engine.warmups_dropped)}}));
  all.push_back(gauge("chimere_prefix_cache_warmups_waiting",
                      "Warm-ups that wait for an idle moment or are being computed.",
                      number(s.engine.warmups_waiting)));
  all.push_back(gauge("chimere_prefix_cache_device_states", "Prefix states in the state store.",
                      number(s.cache.device_states)));
  all.push_back(gauge("chimere_prefix_cache_disk_files", "Files of prefix states.",
                      number(s.cache.disk_files)));
  all.push_back(counter("chimere_prefix_cache_dropped_total",
                        "Prefix states evicted from the last tier that held them.",
                        number(s.cache.dropped)));
  all.push_back(counter("chimere_prefix_cache_rejected_files_total",
                        "Files of prefix states that were damaged or of another model.",
                        number(s.cache.rejected_files)));
  all.push_back(counter("chimere_prefix_cache_failed_writes_total",
                        "Files of prefix states that could not be written.",
                        number(s.cache.failed_writes)));
  all.push_back(histogram("chimere_time_to_first_token_seconds",
                          "From submission to the engine to the first token.", s.first_token));
  all.push_back(histogram("chimere_inter_token_seconds", "Between two tokens of the same request.",
                          s.inter_token));
  all.push_back(histogram("chimere_batch_rows", "Decoding requests per step.", s.engine.batch));
  all.push_back(memory(s));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace chimere::serving
