// Decides which steps issue the same sequence of launches, and keeps the captured graphs.
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

namespace chimere::kernels::cuda {

/// Steps with equal keys issue the same launches with the same arguments; only memory contents
/// differ.
struct GraphKey {
  bool capturable = false;  ///< few rows, none of them prefill rows
  /// Runs between the layers of another step, with step arrays of its own.
  bool interleaved = false;
  int32_t pass = 0;
  int32_t n_rows = 0;
  int32_t n_sequences = 0;
  int32_t n_slices = 0;
  int32_t n_wanted = 0;
  int64_t n_logits = 0;  ///< rows of the outputs
  int64_t n_top = 0;
  int32_t top_count = 0;
  int32_t selected_count = 0;
  bool masked = false;
  bool sums = false;
  bool chooses = false;
  bool async_token = false;
  int32_t sequence_rows = 0;  ///< those of BatchExtent
  int32_t runs = 0;
  int32_t decode_rows = 0;
  int32_t folds = 0;
  int32_t keeps = 0;
  int32_t adapters = 0;   ///< LowRankProducts::version() if rows have adapters; else 0
  int32_t positions = 0;  ///< that launches cover: at least those of the step

  auto operator<=>(const GraphKey&) const = default;
};

GraphKey graph_key_of(const StepInputs& step, const StepOutputs& outputs,
                      const BatchExtent& extent);

class CudaGraphCache {
 public:
  struct Entry {
    bool seen = false;  ///< a first step ran, and with it all lazy initialisation
    std::vector<const PlacedTable*> embedding_tables;  ///< that the step reads
    std::unique_ptr<Graph> graph;                      ///< nullptr: not captured yet
    uint64_t last_use = 0;
  };

  /// nullptr if steps with this key cannot be captured. When the cache is full, the least recently
  /// used entry is dropped, which invalidates pointers returned earlier.
  Entry* find(const GraphKey& key);
  /// Drops all graphs, because addresses in them have changed.
  void forget();

 private:
  std::map<GraphKey, Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CUDA_GRAPH_CACHE_H_
