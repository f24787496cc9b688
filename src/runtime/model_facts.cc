#include "runtime/model_facts.h"

#include <filesystem>
#include <system_error>

namespace chimere::runtime {

Result<ModelFacts> model_facts(const gguf::Reader& file) {
  ModelFacts out;
  CHIMERE_TRY(out.architecture, file.get_string("general.architecture"));
  const auto integer = [&](const char* key) {
    const auto value = file.get_int(out.architecture + "." + key);
    return value.ok() ? *value : 0;
  };
  constexpr int64_t kRank = 4;
  out.ranks = integer("pooling_type") == kRank;
  const auto causal = file.get_bool(out.architecture + ".attention.causal");
  out.pooled = integer("pooling_type") != 0 || (causal.ok() && !*causal);
  out.trained_context = integer("context_length");
  out.embedding_length = integer("embedding_length");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) elements *= dim;
    out.parameters += elements;
  }
  out.file_bytes = static_cast<int64_t>(file.file_bytes());
  return out;
}

std::string file_fingerprint(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return "";
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return "";
  return std::to_string(size) + "@" + std::to_string(time.time_since_epoch().count());
}

}  // namespace chimere::runtime
