// Random adapters (LoRA) for the models of tests, as llama.cpp writes them.
#ifndef CHIMERE_TESTS_SUPPORT_TINY_ADAPTER_H_
#define CHIMERE_TESTS_SUPPORT_TINY_ADAPTER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "model/adapter.h"

namespace chimere::test {

struct TinyAdapter {
  uint64_t seed = 1;
  int rank = 4;
  float alpha = 8;
  float size = 1;  ///< of its changes, relative to weights of random models
  DType type = DType::kF32;
  std::string name = "tiny";
};

/// Changes every tensor among `targets`.
Result<gguf::Writer> make_tiny_adapter(const TinyAdapter& adapter, const std::string& architecture,
                                       std::span<const model::AdapterTarget> targets);

/// The file of a model with f32 weights, with an adapter's changes added to its tensors: what the
/// adapter at this scale amounts to. Both are whole files.
std::vector<uint8_t> merged(std::vector<uint8_t> model, const std::vector<uint8_t>& adapter,
                            double scale);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_TINY_ADAPTER_H_
