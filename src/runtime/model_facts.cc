#include "runtime/model_facts.h"

#include <filesystem>
#include <system_error>

#include "model/adapter.h"
#include "model/model.h"
#include "model/pooling.h"

namespace chimere::runtime {

const char* kind_name(FileKind kind) {
  switch (kind) {
    case FileKind::kText:
      return "text";
    case FileKind::kEmbedding:
      return "embedding";
    case FileKind::kReranking:
      return "reranking";
    case FileKind::kDrafter:
      return "drafter";
    case FileKind::kAdapter:
      return "adapter";
    case FileKind::kUnsupported:
      return "unsupported";
    case FileKind::kUnreadable:
      return "unreadable";
  }
  return "";
}

FileKind file_kind(const gguf::Reader& file) {
  if (model::is_adapter(file)) return FileKind::kAdapter;
  if (model::is_block_drafter(file)) return FileKind::kDrafter;
  const auto architecture = file.get_string("general.architecture");
  if (!architecture.ok() || !model::check_architecture(file).ok()) return FileKind::kUnsupported;
  const auto pooling = file.get_int(*architecture + ".pooling_type");
  if (pooling.ok() && *pooling == static_cast<int64_t>(model::Pooling::kRank))
    return FileKind::kReranking;
  const auto causal = file.get_bool(*architecture + ".attention.causal");
  const bool pooled = (pooling.ok() && *pooling != 0) || (causal.ok() && !*causal);
  return pooled ? FileKind::kEmbedding : FileKind::kText;
}

FileKind file_kind(const std::string& path) {
  const auto file = gguf::Reader::open(path);
  return file.ok() ? file_kind(**file) : FileKind::kUnreadable;
}

Result<ModelFacts> model_facts(const gguf::Reader& file) {
  ModelFacts out;
  CHIMERE_TRY(out.architecture, file.get_string("general.architecture"));
  const auto integer = [&](const char* key) {
    const auto value = file.get_int(out.architecture + "." + key);
    return value.ok() ? *value : 0;
  };
  out.kind = file_kind(file);
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
