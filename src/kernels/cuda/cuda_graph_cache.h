// Which steps are the same sequence of launches, and those sequences once they are recorded.
#ifndef CHIMERE_KERNELS_CUDA_CUDA_GRAPH_CACHE_H_
#define CHIMERE_KERNELS_CUDA_CUDA_GRAPH_CACHE_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Steps of one kind differ in what lies in memory alone.
struct GraphKey {
  bool capturable = false;   ///< few rows, none of them of a chunk
  bool interleaved = false;  ///< in the midst of another step: its arrays lie elsewhere
  int32_t pass = 0;
  int32_t n_rows = 0;
  int32_t n_sequences = 0;
  int32_t n_slices = 0;
  int32_t n_wanted = 0;
  int64_t n_logits = 0;  ///< rows of the outputs
  int64_t n_top = 0;
  int32_t top_count = 0;
  int32_t selected_count = 0;
  bool sums = false;
  bool chooses = false;
  bool async_token = false;
  int32_t sequence_rows = 0;  ///< those of BatchExtent
  int32_t runs = 0;
  int32_t decode_rows = 0;
  int32_t positions = 0;  ///< as launches are made for: at least those of the step

  auto operator<=>(const GraphKey&) const = default;
};

GraphKey graph_key_of(const StepInputs& step, const StepOutputs& outputs,
                      const BatchExtent& extent);

class CudaGraphCache {
 public:
  struct Entry {
    bool seen = false;                         ///< its first step made what is made at first use
    std::vector<WeightView> embedding_tables;  ///< where its tokens are looked up
    std::unique_ptr<Graph> graph;              ///< nullptr: not recorded
    uint64_t last_use = 0;
  };

  /// nullptr if steps of this kind are not recorded. When there are too many kinds, the one that
  /// was used longest ago is forgotten; entries found earlier are void then.
  Entry* find(const GraphKey& kind);
  /// Addresses have changed: nothing recorded is good any more.
  void forget();

 private:
  std::map<GraphKey, Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CUDA_GRAPH_CACHE_H_
