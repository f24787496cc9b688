// From a model folder of transformers (config.json, safetensors, tokenizer) to a GGUF file.
#ifndef CHIMERE_CONVERT_CONVERT_H_
#define CHIMERE_CONVERT_CONVERT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::convert {

struct Options {
  std::string folder;
  std::string output;  ///< replaced if it exists; appears when it is complete
  std::optional<DType> type =
      std::nullopt;       ///< nullopt: BF16 where the matrices are BF16, else F16
  std::string base = {};  ///< of adapters: the folder of the model; empty: as the adapter says
  bool tokenizer = true;  ///< false: no vocabulary; the file serves tests only. Drafters have none
  /// Called before each tensor with its number, how many there are, and its name.
  std::function<void(size_t, size_t, std::string_view)> progress = {};
};

struct Report {
  std::string architecture;
  DType type = DType::kF32;
  size_t tensors = 0;
  uint64_t tensor_bytes = 0;
  std::vector<std::string> dropped;  ///< tensors of the source that the file lacks
};

/// Converts one tensor at a time: memory holds the largest tensor of the file. Errors: kNotFound
/// without config.json, weights or tokenizer; kInvalidData for damaged or contradictory files,
/// naming the member or tensor; kUnsupported for other models; kIo, also if the disk is full.
Result<Report> convert_model(const Options& options);

/// Whether the folder holds an adapter of PEFT (adapter_config.json).
bool is_adapter_folder(const std::string& folder);
/// Converts a LoRA adapter of PEFT as llama.cpp's convert_lora_to_gguf.py does. The default type is
/// that of the source. Errors: kNotFound without adapter_model.safetensors or the base model's
/// config.json; kUnsupported for other adapters (DoRA, biases, whole modules, embeddings), naming
/// the member or tensor; kInvalidData, kIo.
Result<Report> convert_adapter(const Options& options);

/// F32, F16, BF16 and Q8_0 by name, in any case; nullopt for others.
std::optional<DType> parse_output_type(std::string_view name);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_CONVERT_H_
