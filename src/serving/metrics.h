// Prometheus metrics of the server.
#ifndef CHIMERE_SERVING_METRICS_H_
#define CHIMERE_SERVING_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "engine/service.h"
#include "serving/generation_job.h"
#include "serving/metrics_table.h"
#include "serving/model_registry.h"

namespace chimere::serving {

/// A model with the counters of its engine.
struct ModelMetrics {
  explicit ModelMetrics(ModelStatus of);
  ModelMetrics(ModelStatus of, const engine::ServiceStats& stats)
      : status(std::move(of)), engine(stats) {}

  ModelStatus status;
  std::optional<engine::ServiceStats> engine;  ///< of a loaded model that generates text
};

class Metrics {
 public:
  /// Values of a metric's labels, in their order. Few values may occur: each is kept.
  using Labels = std::array<std::string, std::tuple_size_v<decltype(MetricInfo::labels)>>;

  /// Adds to a counter. Any thread.
  void add(CountedMetric metric, Labels labels, double value);

  /// Any thread. `route`: one of the server's own routes, so that the number of label values stays
  /// bounded.
  void count_request(const std::string& route, int status);
  void count_response(const GenerationReport& report);
  void count_embeddings(int64_t tokens);
  /// The Prometheus text format, including the engines' counters.
  std::string text(std::span<const ModelMetrics> models, int64_t connections,
                   std::span<const KeyUsage::Budget> keys = {}) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::map<Labels, double>, kMetrics.size()> counts_;  ///< by row
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_METRICS_H_
