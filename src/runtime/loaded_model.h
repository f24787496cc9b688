// Loads a model file according to the settings.
#ifndef CHIMERE_RUNTIME_LOADED_MODEL_H_
#define CHIMERE_RUNTIME_LOADED_MODEL_H_

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "model/model.h"
#include "runtime/load_observer.h"
#include "runtime/memory_budget.h"
#include "runtime/runtime.h"
#include "state/weights_hash.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file);

/// The state-store capacity that a command needs.
struct MemoryRequest {
  int64_t contexts = 1;             ///< capacity in whole contexts
  int64_t sequences = 0;            ///< number that shares this capacity; 0: as many as contexts
  int64_t default_context = 32768;  ///< without --ctx, if the model allows more
  /// Capacity in tokens without --ctx, whole pages for each sequence; 0: `contexts` contexts.
  int64_t default_tokens = 0;
  int64_t checkpoints = 0;  ///< states in addition to those of the sequences
  /// The numbers above are upper limits: memory is allocated on use, up to --state-memory. Without
  /// --ctx the context is the largest up to the model's own that fits for one sequence; --ctx must
  /// fit.
  bool elastic = false;
  bool on_gpu = true;  ///< if the settings select a GPU
  int step_rows = 0;   ///< largest number of rows in a step; 0: chosen for the back end
};

/// The transfer of the weights to a GPU, including packing.
struct Upload {
  int64_t bytes = 0;
  double seconds = 0;
};

/// File, kernels, weights and tokenizer. Members are destroyed in reverse order.
struct LoadedModel {
  std::unique_ptr<gguf::Reader> file;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::shared_ptr<ThreadPool> pool;                   ///< the Runtime's
  std::unique_ptr<MemoryBudget::Share> memory_share;  ///< of the Runtime's budget
  std::unique_ptr<kernels::cuda::Device> gpu;  ///< device of the ops; nullptr: they run on the CPU
  Upload upload;                               ///< to the GPU
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
  int64_t context = 0;          ///< tokens of one sequence
  int64_t trained_context = 0;  ///< the model's own
  model::ModelOptions options;
  int64_t min_tokens = 0;  ///< positions without which the command cannot work
  int64_t min_states = 0;  ///< recurrent states without which the command cannot work
  bool elastic = false;    ///< MemoryRequest::elastic
  int step_rows = kHostStepRows;

  static constexpr int kHostStepRows = 512;
  /// Candidates for step_rows. A GPU decodes each weight once for all rows of a step, and each
  /// expert gets only a few of them.
  static constexpr int kGpuStepRows[] = {4096, 2048, kHostStepRows};
};

/// Mean number of experts per layer and token.
inline double mean_experts(const kernels::ExpertUse& use) {
  return static_cast<double>(use.experts) / static_cast<double>(use.rows);
}

/// The amount of --state-memory, which is given. Errors: kInvalidArgument, which names the flag.
Result<int64_t> state_memory(const Settings& settings);

/// Starts hashing the file's weights; the hash identifies them in stored states. Hashes are kept in
/// the state folder. The file must outlive the hash.
std::shared_ptr<state::WeightsHash> hash_weights(const Settings& settings,
                                                 const gguf::Reader& file);

/// Errors: those of the tokenizer and the model; kInvalidArgument if --ctx exceeds the
/// model's context; kOutOfMemory if the KV cache exceeds the machine's memory, the runtime's budget
/// or --state-memory; those of move_to_gpu(). The model may outlive the runtime.
Result<LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                         const MemoryRequest& request, const Runtime& runtime,
                         const LoadObserver& observer);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_LOADED_MODEL_H_
