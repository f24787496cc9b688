// What a model file says of its model, without loading it.
#ifndef CHIMERE_RUNTIME_MODEL_FACTS_H_
#define CHIMERE_RUNTIME_MODEL_FACTS_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "gguf/reader.h"

namespace chimere::runtime {

struct ModelFacts {
  std::string architecture;      ///< general.architecture
  bool pooled = false;           ///< computes embeddings or scores, and generates no text
  bool ranks = false;            ///< computes scores of pairs
  int64_t parameters = 0;        ///< elements of all tensors
  int64_t trained_context = 0;   ///< tokens; 0: the file does not say
  int64_t embedding_length = 0;  ///< of hidden states; 0: the file does not say
  int64_t file_bytes = 0;        ///< of all parts
};

/// Errors: kInvalidData (no general.architecture).
Result<ModelFacts> model_facts(const gguf::Reader& file);

/// Size and modification time of a file, as a text that changes when the file does; empty if it
/// cannot be read.
std::string file_fingerprint(const std::string& path);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_MODEL_FACTS_H_
