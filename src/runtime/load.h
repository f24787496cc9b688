// Loads a model file according to the settings.
#ifndef CHIMERE_RUNTIME_LOAD_H_
#define CHIMERE_RUNTIME_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/settings.h"
#include "gguf/reader.h"
#include "runtime/load_observer.h"
#include "runtime/loaded_model.h"
#include "runtime/runtime.h"

namespace chimere::runtime {

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
  bool drafter = false;  ///< loads that of --draft-model, which other commands ignore
  bool on_gpu = true;    ///< if the settings select a GPU
  /// Encoders compute a text in one step: such a model's steps have at least `default_context`
  /// rows.
  bool whole_texts = false;
  std::optional<model::Pooling> pooling = std::nullopt;  ///< ModelOptions::pooling
  /// Applied to the CPU's ops before the model is loaded with them (on_gpu must be false).
  std::function<std::unique_ptr<kernels::Ops>(std::unique_ptr<kernels::Ops>)> wrap_ops = {};
  int step_rows = 0;  ///< largest number of rows in a step; 0: chosen for the back end
};

/// Errors: those of the tokenizer and the model; kInvalidArgument if --ctx exceeds the
/// model's context; kOutOfMemory if the KV cache exceeds the machine's memory, the runtime's budget
/// or --state-memory; those of move_to_gpu(). The model may outlive the runtime.
Result<LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                         const MemoryRequest& request, const Runtime& runtime,
                         const LoadObserver& observer);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_LOAD_H_
