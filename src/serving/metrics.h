// Prometheus metrics of the server.
#ifndef CHIMERE_SERVING_METRICS_H_
#define CHIMERE_SERVING_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/service.h"
#include "serving/generation_job.h"

namespace chimere::serving {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Any thread. `route`: one of the server's own routes, so that the number of label values stays
  /// bounded.
  void count_request(const std::string& route, int status);
  void count_response(const GenerationReport& report);
  void count_embeddings(int64_t tokens);
  /// The Prometheus text format, including the engine's counters.
  std::string text(const engine::ServiceStats& stats, int64_t connections) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_METRICS_H_
