#include "model/arch/registry.h"

#include <string>

#include "model/adapter.h"

namespace chimere::model {
namespace {

constexpr Architecture kArchitectures[] = {
#define CHIMERE_ARCHITECTURE_ROW(name, read) {name, read},
    CHIMERE_ARCHITECTURES(CHIMERE_ARCHITECTURE_ROW)
#undef CHIMERE_ARCHITECTURE_ROW
};

}  // namespace

Result<const Architecture*> find_architecture(const gguf::Reader& file) {
  if (is_adapter(file)) {
    return unsupported("this file is a LoRA adapter; run its model with --lora " + file.path());
  }
  CHIMERE_TRY(const std::string name, file.get_string("general.architecture"));
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return &architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return unsupported("models of architecture '" + name + "' cannot be run; supported: " + known);
}

}  // namespace chimere::model
