// A model that is ready to run: its file, kernels, weights and tokenizer.
#ifndef CHIMERE_RUNTIME_LOADED_MODEL_H_
#define CHIMERE_RUNTIME_LOADED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "engine/adapter_set.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "model/model.h"
#include "runtime/loaded_drafter.h"
#include "runtime/memory_budget.h"
#include "text/prompt_template.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

/// `corrected`: see model::vocabulary_from_gguf().
Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file,
                                                        std::string* corrected = nullptr);

/// The template of --chat-template, or that of the file. `warn` hears what text::select_template()
/// has to say. The tokenizer must outlive the result. Errors: those of text::select_template().
Result<text::PromptTemplate> load_prompt_template(
    const gguf::Reader& file, const text::Tokenizer& tokenizer, const Settings& settings,
    const std::function<void(const std::string&)>& warn);

/// The tags of a model's reasoning: those of its template, or without one those of its vocabulary.
text::ReasoningTags reasoning_tags(const Result<text::PromptTemplate>& prompt_template,
                                   const text::Tokenizer& tokenizer);

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
  kernels::CpuIsa cpu_isa = kernels::CpuIsa::kGeneric;  ///< of all that the CPU computes
  int64_t unpacked_bytes = 0;  ///< of the experts that were unpacked in memory for the CPU
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<LoadedDrafter> drafter;  ///< nullptr: none
  /// Those that load_adapters() has added to the model; never nullptr.
  std::shared_ptr<engine::AdapterSet> adapters = std::make_shared<engine::AdapterSet>();
  int64_t context = 0;          ///< tokens of one sequence
  int64_t trained_context = 0;  ///< the model's own
  model::ModelOptions options;
  int64_t min_tokens = 0;  ///< positions without which the command cannot work
  int64_t min_states = 0;  ///< recurrent states without which the command cannot work
  bool elastic = false;    ///< MemoryRequest::elastic
  int step_rows = kHostStepRows;

  /// For engine::EngineOptions.
  model::Model* draft_model() const { return drafter != nullptr ? drafter->model.get() : nullptr; }

  static constexpr int kHostStepRows = 512;
  /// Candidates for step_rows. A GPU decodes each weight once for all rows of a step, and each
  /// expert gets only a few of them.
  static constexpr int kGpuStepRows[] = {4096, 2048, kHostStepRows};
};

/// Mean number of experts per layer and token.
inline double mean_experts(const kernels::ExpertUse& use) {
  return static_cast<double>(use.experts) / static_cast<double>(use.rows);
}

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_LOADED_MODEL_H_
