// What a model file says of its model, without loading it.
#ifndef CHIMERE_RUNTIME_MODEL_FACTS_H_
#define CHIMERE_RUNTIME_MODEL_FACTS_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "gguf/reader.h"

namespace chimere::runtime {

/// What a model file is for.
enum class FileKind : uint8_t {
  kText,         ///< generates text
  kEmbedding,    ///< computes embeddings
  kReranking,    ///< computes scores of pairs
  kDrafter,      ///< drafts for another model
  kAdapter,      ///< LoRA: changes another model
  kUnsupported,  ///< an architecture that cannot be run
  kUnreadable,   ///< no valid GGUF file
};
/// "text", "embedding", ...
const char* kind_name(FileKind kind);

struct ModelFacts {
  std::string architecture;  ///< general.architecture
  FileKind kind = FileKind::kText;
  int64_t parameters = 0;        ///< elements of all tensors
  int64_t trained_context = 0;   ///< tokens; 0: the file does not say
  int64_t embedding_length = 0;  ///< of hidden states; 0: the file does not say
  int64_t file_bytes = 0;        ///< of all parts
};

/// Errors: kInvalidData (no general.architecture).
Result<ModelFacts> model_facts(const gguf::Reader& file);

/// Reads the file's metadata and no weights.
FileKind file_kind(const gguf::Reader& file);
/// The same for the file at a path, which may be the first part of a split model.
FileKind file_kind(const std::string& path);

/// Size and modification time of a file, as a text that changes when the file does; empty if it
/// cannot be read.
std::string file_fingerprint(const std::string& path);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_MODEL_FACTS_H_
