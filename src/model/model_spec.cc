#include "model/model_spec.h"

#include <cstdint>
#include <limits>

#include "model/rope_keys.h"

namespace chimere::model {
namespace {

/// The vocabulary's size is that of the embedding table, which a drafter may share with its target;
/// a tokenizer in the file of another model must agree.
Result<int> read_vocabulary_size(const Keys& keys) {
  const gguf::Reader& file = keys.file();
  const gguf::TensorInfo* table = file.find_tensor("token_embd.weight");
  if (table == nullptr && keys.target() != nullptr) {
    table = keys.target()->find_tensor("token_embd.weight");
  }
  if (table == nullptr) return invalid_data("the tensor token_embd.weight is missing");
  if (table->dims.size() != 2 || table->dims[1] < 1 ||
      table->dims[1] > std::numeric_limits<int32_t>::max()) {
    return invalid_data("the tensor token_embd.weight must have two dimensions, one row a token");
  }
  const auto n_vocab = static_cast<int>(table->dims[1]);
  const std::vector<std::string>* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (keys.target() != nullptr) return n_vocab;  // the target's tokenizer counts
  if (tokens != nullptr && tokens->size() != static_cast<size_t>(n_vocab)) {
    return invalid_data("tokenizer.ggml.tokens has " + std::to_string(tokens->size()) +
                        " entries, but token_embd.weight has " + std::to_string(n_vocab) + " rows");
  }
  return n_vocab;
}

/// "pooling_type" of an embedding model, kNone without it.
Result<Pooling> read_pooling(const Keys& keys) {
  constexpr int kTypes = 5;
  CHIMERE_TRY(const int type, keys.integer_or("pooling_type", 0, 0, kMaxCount));
  if (type < kTypes) return static_cast<Pooling>(type);
  return unsupported(keys.name("pooling_type") + " is " + std::to_string(type) +
                     "; known are none (0), mean (1), the first token (2), the last (3), rank (4)");
}

}  // namespace

Result<ModelSpec> read_model(const Keys& keys) {
  ModelSpec model;
  model.architecture = keys.architecture();
  CHIMERE_TRY(model.n_embd, keys.integer("embedding_length", 1, kMaxWidth));
  CHIMERE_TRY(model.context_length,
              keys.integer("context_length", 1, std::numeric_limits<int32_t>::max()));
  // Files of nemotron_h have the other key for the same norm.
  const char* const eps = "attention.layer_norm_rms_epsilon";
  const char* const other_eps = "attention.layer_norm_epsilon";
  const bool other = !keys.has(eps) && keys.has(other_eps);
  CHIMERE_TRY(model.norm_eps, keys.positive(other ? other_eps : eps));
  CHIMERE_CHECK_OK(check_rope_keys(keys.file(), keys.architecture(), model.context_length));
  CHIMERE_TRY(model.n_vocab, read_vocabulary_size(keys));
  CHIMERE_TRY(model.pooling, read_pooling(keys));
  return model;
}

Result<Blocks> read_blocks(const Keys& keys) {
  Blocks blocks;
  CHIMERE_TRY(const int all, keys.block_count());
  CHIMERE_TRY(blocks.mtp_heads, keys.integer_or("nextn_predict_layers", 0, 0, all - 1));
  blocks.layers = all - blocks.mtp_heads;
  return blocks;
}

Result<std::vector<bool>> read_recurrent_layers(const Keys& keys, const Blocks& blocks) {
  CHIMERE_TRY(const auto flags, keys.flags("attention.recurrent_layers"));
  CHIMERE_TRY(const int interval, keys.integer_or("full_attention_interval", 4, 1, kMaxCount));
  if (flags) return std::vector<bool>(flags->begin(), flags->begin() + blocks.layers);
  std::vector<bool> recurrent;
  for (int i = 0; i < blocks.layers; ++i) recurrent.push_back((i + 1) % interval != 0);
  return recurrent;
}

}  // namespace chimere::model
