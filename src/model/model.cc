#include "model/model.h"

#include <array>

#include "model/arch/qwen35moe.h"

namespace chimere::model {
namespace {

struct Architecture {
  const char* name;
  Result<std::unique_ptr<Model>> (*load)(const gguf::Reader&, kernels::Ops&, const ModelOptions&);
};

constexpr std::array<Architecture, 1> kArchitectures = {{{"qwen35moe", load_qwen35moe}}};

}  // namespace

Result<std::unique_ptr<Model>> load_model(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options) {
  CHIMERE_TRY(const std::string name, file.get_string("general.architecture"));
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return architecture.load(file, ops, options);
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return unsupported("models of architecture '" + name + "' cannot be run; supported: " + known);
}

}  // namespace chimere::model
