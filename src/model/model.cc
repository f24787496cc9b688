#include "model/model.h"

#include "model/arch/qwen3.h"
#include "model/arch/qwen35.h"
#include "model/arch/qwen35moe.h"
#include "model/arch/qwen3moe.h"
#include "model/arch/qwen3next.h"

namespace chimere::model {
namespace {

struct Architecture {
  const char* name;
  Result<std::unique_ptr<Model>> (*load)(const gguf::Reader&, kernels::Ops&, const ModelOptions&);
};

constexpr Architecture kArchitectures[] = {
    {"qwen35", load_qwen35}, {"qwen35moe", load_qwen35moe}, {"qwen3next", load_qwen3next},
    {"qwen3", load_qwen3},   {"qwen3moe", load_qwen3moe},
};

Result<const Architecture*> find_architecture(const gguf::Reader& file) {
  CHIMERE_TRY(const std::string name, file.get_string("general.architecture"));
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return unsupported("models of architecture '" + name + "' cannot be run; supported: " + known);
}

}  // namespace

Status Model::read_logits(int64_t row, std::span<float> /*out*/) {
  return invalid_argument("the last step kept no logits of row " + std::to_string(row) +
                          ", or not of this size");
}

Status Model::launch(const StepPlan& /*plan*/) {
  return unsupported("this model does not support overlap scheduling; use forward()");
}

Result<StepResult> Model::wait() { return invalid_argument("no step is in flight"); }

Status Model::draft(std::span<const DraftStart> /*starts*/, int /*depth*/,
                    const ChooseDraft& /*choose*/) {
  return unsupported("The model was loaded without an MTP head.");
}

Status check_architecture(const gguf::Reader& file) {
  CHIMERE_CHECK_OK(find_architecture(file));
  return {};
}

Result<std::unique_ptr<Model>> load_model(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options) {
  CHIMERE_TRY(const Architecture* architecture, find_architecture(file));
  return architecture->load(file, ops, options);
}

}  // namespace chimere::model
