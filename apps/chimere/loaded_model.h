// Loads a model file for running, as the settings say.
#ifndef CHIMERE_APPS_CHIMERE_LOADED_MODEL_H_
#define CHIMERE_APPS_CHIMERE_LOADED_MODEL_H_

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "model/model.h"
#include "model_path.h"
#include "state/weights_hash.h"
#include "text/tokenizer.h"

namespace chimere::app {

/// Opens the model `name`, or if that is empty the one that `settings::kModel` names, or the
/// shipped one; then, unless --quiet is given, a line on standard error says so.
Result<std::unique_ptr<gguf::Reader>> open_model(const Settings& settings,
                                                 const std::string& name = "",
                                                 ShippedModel shipped = ShippedModel::kText);

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file);

/// The capacity that a command needs of the state store.
struct MemoryRequest {
  int64_t contexts = 1;             ///< capacity in whole contexts
  int64_t sequences = 0;            ///< that share this capacity; 0: as many as contexts
  int64_t default_context = 32768;  ///< without --ctx, if the model allows more
  /// Capacity in tokens without --ctx, whole pages for each sequence; 0: `contexts` contexts.
  int64_t default_tokens = 0;
  int64_t checkpoints = 0;  ///< states beside those of the sequences
  /// The numbers above are upper limits: memory is allocated on use, up to --state-memory, and the
  /// context is as much of the model's own as fits for one sequence (--ctx must fit).
  bool elastic = false;
  bool on_gpu = true;  ///< if the settings say so
  int step_rows = 0;   ///< most rows of a step; 0: as many as suit the back end
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
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<kernels::cuda::Device> gpu;  ///< of the ops; nullptr: they run on the CPU
  Upload upload;                               ///< to the GPU
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
  int64_t context = 0;          ///< tokens of one sequence
  int64_t trained_context = 0;  ///< the model's own
  model::ModelOptions options;
  int64_t min_tokens = 0;  ///< positions without which the command cannot work
  int64_t min_states = 0;  ///< recurrent states without which the command cannot work
  bool elastic = false;    ///< MemoryRequest::elastic
  /// Candidates for the rows of a step. A GPU decodes each weight once for all rows, of which each
  /// expert gets few.
  int step_rows = kHostStepRows;

  static constexpr int kHostStepRows = 512;
  static constexpr int kGpuStepRows[] = {4096, 2048, kHostStepRows};
};

/// Of a layer and token.
inline double mean_experts(const kernels::ExpertUse& use) {
  return static_cast<double>(use.experts) / static_cast<double>(use.rows);
}

/// Begins to hash the file's weights, which names them where states are stored; hashes are kept in
/// the state folder. The file must outlive the hash.
std::shared_ptr<state::WeightsHash> hash_weights(const Settings& settings,
                                                 const gguf::Reader& file);

/// Errors: those of the reader, the tokenizer and the model, kInvalidArgument if --ctx goes beyond
/// the model, kOutOfMemory if its keys and values go beyond the machine or --state-memory, those of
/// move_to_gpu().
Result<LoadedModel> load(const Settings& settings, const MemoryRequest& request);
/// The same for a file that is open already.
Result<LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                         const MemoryRequest& request);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_LOADED_MODEL_H_
