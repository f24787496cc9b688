// What chimere bench prints.
#ifndef CHIMERE_APPS_CHIMERE_BENCH_REPORT_H_
#define CHIMERE_APPS_CHIMERE_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "bandwidth.h"
#include "json.h"
#include "kernels/cuda/device/stream.h"
#include "loaded_model.h"

namespace chimere::app {

/// Generations with drafts that are right as often as a test says.
struct DraftedGenerations {
  double acceptance = 0;       ///< probability of a draft behind one that was right
  int32_t depth = 0;           ///< drafts of a step
  double tokens_per_step = 1;  ///< of a generation
  double of_off = 1;           ///< rate, relative to generations without drafts
};

struct Measured {
  double seconds = 0;
  double bytes = 0;
  // Of the whole test, on a card.
  int64_t steps = 0;
  kernels::cuda::StreamCounts asked;
  kernels::ExpertUse used;  ///< of all runs, where experts are left out
  std::optional<DraftedGenerations> drafted;
};

class BenchReport {
 public:
  BenchReport(bool json, const LoadedModel& loaded, const Bandwidth& bandwidth);

  /// `tokens` of all runs of a test and all its generations.
  void add(const std::string& test, int32_t batch, double tokens, const Measured& m);
  void finish() const;

 private:
  bool json_;
  int64_t context_;
  int64_t tokens_;  ///< that there is room for
  const kernels::cuda::DeviceFacts* gpu_ = nullptr;
  Upload upload_;
  Bandwidth bandwidth_;
  Json rows_ = Json::array();
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_BENCH_REPORT_H_
