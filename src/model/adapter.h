// Adapters of a model (LoRA): which matrices they may change, and how their files are read.
#ifndef CHIMERE_MODEL_ADAPTER_H_
#define CHIMERE_MODEL_ADAPTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "kernels/low_rank.h"
#include "state/checksum.h"

namespace chimere::model {

/// A matrix that adapters may change: rows of a tensor of the model's file.
struct AdapterTarget {
  std::string tensor;
  int64_t n_in = 0;
  int64_t part_rows = 0;        ///< rows of the tensor, of each expert if there are several
  int64_t parts = 1;            ///< experts
  bool in_experts = false;      ///< Ops::moe_ffn() multiplies with it
  std::vector<int64_t> rows{};  ///< the tensor's rows in the matrix's order; empty: all of them
};

/// An adapter for a model, with the memory of its matrices.
struct Adapter {
  kernels::LowRankAdapter low_rank;
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  /// Of everything that results depend on: names, shapes, values and scales.
  state::Hash128 hash;
  int64_t bytes = 0;  ///< of `memory`
};

/// What an adapter file says about itself, without its model.
struct AdapterFile {
  std::string architecture;  ///< of the model
  std::string name;          ///< "general.name"; may be empty
  double alpha = 0;          ///< 0: products are not scaled
  int64_t matrices = 0;      ///< that it changes
  int64_t least_rank = 0;
  int64_t most_rank = 0;
};

/// Whether the file says that it is an adapter ("general.type").
bool is_adapter(const gguf::Reader& file);

/// Reads the description of an adapter as llama.cpp writes them: keys "adapter.type" = "lora" and
/// "adapter.lora.alpha", tensors NAME.lora_a [n_in, rank] and NAME.lora_b [rank, n_out], for
/// experts with their number as a third dimension. Errors: kInvalidData (names the tensor or key),
/// kUnsupported (another kind of adapter).
Result<AdapterFile> describe_adapter(const gguf::Reader& file);

/// The adapter of a file for a model with these targets; copies everything. Errors: those of
/// describe_adapter(); kInvalidArgument (an adapter of another model: names the tensor or the
/// architecture), kUnsupported (a tensor that adapters cannot change), kIo (the file changed).
Result<Adapter> read_adapter(const gguf::Reader& file, const std::string& architecture,
                             std::span<const AdapterTarget> targets);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ADAPTER_H_
