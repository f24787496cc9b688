// The output of chimere bench: a table, or JSON.
#ifndef CHIMERE_APPS_CHIMERE_BENCH_REPORT_H_
#define CHIMERE_APPS_CHIMERE_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "bandwidth.h"
#include "json.h"
#include "kernels/cuda/device/stream.h"
#include "runtime/loaded_model.h"

namespace chimere::app {

/// Generations with simulated drafts.
struct DraftedGenerations {
  double acceptance = 0;  ///< probability that a draft is right if those before it are
  int32_t drafts_per_step = 0;
  double tokens_per_step = 1;  ///< accepted drafts and the sampled token
  double speedup = 1;          ///< rate relative to generations without drafts
};

/// One run of a test.
struct Measured {
  double seconds = 0;
  double bytes = 0;  ///< that the steps must move, by BytesModel
  // Totals of the run; the stream's counts are 0 without a GPU.
  int64_t steps = 0;
  kernels::cuda::StreamCounts asked;
  kernels::ExpertUse used;  ///< of all runs, with --expert-top-p below 1
  std::optional<DraftedGenerations> drafted;
};

class BenchReport {
 public:
  BenchReport(bool json, const runtime::LoadedModel& loaded, const Bandwidth& bandwidth);

  /// A row of the report. `tokens`: those that one run of the test computes in all its generations.
  void add(const std::string& test, int32_t batch, double tokens, const Measured& m);
  /// With --json, prints the document.
  void finish() const;

 private:
  bool json_;
  int64_t context_;  ///< tokens of one sequence
  int64_t tokens_;   ///< capacity of the KV cache in tokens
  const kernels::cuda::DeviceFacts* gpu_ = nullptr;
  runtime::Upload upload_;
  Bandwidth bandwidth_;
  std::string cpu_isa_;  ///< of the CPU's kernels
  Json rows_ = Json::array();
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_BENCH_REPORT_H_
