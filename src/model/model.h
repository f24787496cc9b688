// A loaded model: weights on a device and a forward pass.
#ifndef CHIMERE_MODEL_MODEL_H_
#define CHIMERE_MODEL_MODEL_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/step.h"
#include "state/sequence_state.h"

namespace chimere::model {

struct ModelOptions {
  int64_t max_tokens = 4096;  ///< KV positions over all sequences together
  int max_step_rows = 512;    ///< rows of one step; larger plans are refused
  DType cache_k = DType::kF16;
  DType cache_v = DType::kF16;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const std::string& architecture() const = 0;
  virtual int64_t n_vocab() const = 0;
  virtual int64_t context_length() const = 0;  ///< trained
  /// Weight bytes a decode step of one sequence reads (each active weight once), for the bytes model.
  virtual int64_t active_weight_bytes() const = 0;

  /// The pools that sequences of this model live in.
  virtual state::StateStore& states() = 0;

  /// Advances all sequences of the plan by their rows. On an error no state has changed.
  virtual Result<StepResult> forward(const StepPlan& plan) = 0;
};

/// Chooses by general.architecture. The reader (the mapped file) and ops must outlive the model.
/// Errors: unknown architecture (names the supported ones), missing or misshapen tensors, memory.
Result<std::unique_ptr<Model>> load_model(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_H_
