#include "serving/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

namespace chimere::serving {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

prometheus::MetricType type_of(MetricInfo::Type type) {
  switch (type) {
    case MetricInfo::Type::kCounter:
      return prometheus::MetricType::Counter;
    case MetricInfo::Type::kGauge:
      return prometheus::MetricType::Gauge;
    default:
      return prometheus::MetricType::Histogram;
  }
}

ClientMetric& add_number(MetricFamily& family, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  (family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      value;
  return metric;
}

void add_histogram(MetricFamily& family, const HistogramValue& value) {
  ClientMetric& metric = family.metric.emplace_back();
  for (const auto& [bound, below] : value.buckets) {
    metric.histogram.bucket.push_back({below, bound});
  }
  metric.histogram.sample_count = value.count;
  metric.histogram.sample_sum = value.sum;
}

void add_values(MetricFamily& family, const MetricInfo& info, const MetricSources& sources) {
  if (info.value != nullptr) add_number(family, info.value(sources));
  if (info.histogram != nullptr) add_histogram(family, info.histogram(sources));
  if (info.labelled == nullptr) return;
  for (const auto& [label, value] : info.labelled(sources)) {
    add_number(family, value).label = {{std::string(info.labels.front()), std::string(label)}};
  }
}

}  // namespace

ModelMetrics::ModelMetrics(ModelStatus of) : status(std::move(of)) {
  if (status.loaded.text != nullptr) engine = status.loaded.text->service.stats();
}

void Metrics::add(CountedMetric metric, Labels labels, double value) {
  const std::lock_guard lock(mutex_);
  counts_.at(metric.index())[std::move(labels)] += value;
}

void Metrics::count_request(const std::string& route, int status) {
  add("chimere_http_requests_total", {route, std::to_string(status)}, 1);
}

void Metrics::count_response(const GenerationReport& report) {
  const auto count = [&](const char* kind, int64_t tokens) {
    add("chimere_tokens_total", {kind, ""}, static_cast<double>(tokens));
  };
  count("prompt", report.usage.prompt_tokens);
  count("cached", report.usage.cached_tokens);
  count("completion", report.usage.completion_tokens);
  count("reasoning", report.usage.reasoning_tokens);
  count("accepted_draft", report.usage.accepted_drafts);
  count("rejected_draft", report.usage.rejected_drafts);
}

void Metrics::count_embeddings(int64_t tokens) {
  add("chimere_tokens_total", {"embedding", ""}, static_cast<double>(tokens));
}

std::string Metrics::text(std::span<const ModelMetrics> models, int64_t connections,
                          std::span<const KeyUsage::Budget> keys) const {
  const ModelStatus no_model;
  const engine::ServiceStats no_stats;
  std::vector<MetricFamily> all;
  for (size_t row = 0; row < kMetrics.size(); ++row) {
    const MetricInfo& info = kMetrics[row];
    MetricFamily family{std::string(info.name), std::string(info.help), type_of(info.type), {}};
    if (info.of == MetricInfo::Of::kServer) {
      add_values(family, info, {no_stats, no_model, connections, keys});
    }
    for (const ModelMetrics& model : models) {
      if (info.of == MetricInfo::Of::kServer) break;
      if (info.of == MetricInfo::Of::kEngine && !model.engine) continue;
      const size_t before = family.metric.size();
      add_values(family, info,
                 {model.engine ? *model.engine : no_stats, model.status, connections});
      for (size_t i = before; i < family.metric.size(); ++i) {
        family.metric[i].label.push_back({"model", model.status.about.id});
      }
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [labels, value] : counts_[row]) {
      ClientMetric& metric = add_number(family, value);
      for (size_t i = 0; i < labels.size(); ++i) {
        if (!info.labels[i].empty())
          metric.label.push_back({std::string(info.labels[i]), labels[i]});
      }
    }
    all.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace chimere::serving
