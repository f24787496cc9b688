// DFlash (arXiv:2602.06036): block drafters, small transformers that read the hidden states of
// another model and use its embeddings and its output matrix. The file format is llama.cpp's.
#include <string>

#include "model/arch/registry.h"
#include "model/layers/dense_network.h"
#include "model/layers/self_attention.h"

namespace chimere::model {
namespace {

constexpr int kUsualBlock = 16;

/// "target_layers": a value n stands for the input of layer n, which is the output of the layer
/// before it.
Result<std::vector<int32_t>> read_taps(const Keys& keys, const gguf::Reader& target) {
  CHIMERE_TRY(const std::string architecture, target.get_string("general.architecture"));
  CHIMERE_TRY(const int64_t n_blocks, target.get_int(architecture + ".block_count"));
  const auto mtp_heads = target.get_int(architecture + ".nextn_predict_layers");
  const int64_t n_layers = n_blocks - (mtp_heads.ok() ? *mtp_heads : 0);
  const std::string name = keys.name("target_layers");
  CHIMERE_TRY(const std::vector<int64_t> values, keys.file().get_int_array(name));
  if (values.empty()) return invalid_data(name + " is empty");
  std::vector<int32_t> taps;
  for (const int64_t value : values) {
    const int64_t before = taps.empty() ? 0 : taps.back() + 1;
    if (value <= before || value > n_layers) {
      return unsupported(name + " has " + std::to_string(value) + " after " +
                         std::to_string(before) + "; the values must rise from 1 to the " +
                         std::to_string(n_layers) + " layers of the model that it drafts for");
    }
    taps.push_back(static_cast<int32_t>(value - 1));
  }
  return taps;
}

Status check_width(const Keys& keys, int n_embd) {
  CHIMERE_TRY(const std::string architecture, keys.target()->get_string("general.architecture"));
  CHIMERE_TRY(const int64_t width, keys.target()->get_int(architecture + ".embedding_length"));
  if (width == n_embd) return {};
  return unsupported(keys.file().path() + " drafts for models of embedding length " +
                     std::to_string(n_embd) + "; this model has " + std::to_string(width));
}

}  // namespace

/// Every layer: attention, in some layers within a window, then a dense network.
Result<ModelSpec> dflash(const Keys& keys) {
  if (keys.target() == nullptr) {
    return unsupported(
        "this file is a drafter, which only works together with the model that it was trained "
        "for; use it with -m MODEL --draft-model " +
        keys.file().path());
  }
  CHIMERE_TRY(ModelSpec model, read_model(keys));
  CHIMERE_CHECK_OK(check_width(keys, model.n_embd));
  BlockDraft draft;
  CHIMERE_TRY(draft.taps, read_taps(keys, *keys.target()));
  CHIMERE_TRY(draft.block_size,
              keys.integer_or("block_size", kUsualBlock, kMinDraftBlock, kMaxDraftBlock));
  const auto mask = keys.file().get_int("tokenizer.ggml.mask_token_id");
  if (!mask.ok()) return mask.error();
  if (*mask < 0 || *mask >= model.n_vocab) {
    return unsupported("tokenizer.ggml.mask_token_id is " + std::to_string(*mask) +
                       ", which the model that it drafts for does not have: it has " +
                       std::to_string(model.n_vocab) + " tokens");
  }
  draft.mask_token = static_cast<int32_t>(*mask);
  model.block_draft = draft;
  CHIMERE_TRY(const auto windows, keys.flags("attention.sliding_window_pattern"));
  (void)keys.name("attention.sliding_window");  // read even if no layer has the window
  CHIMERE_TRY(const int n_layers, keys.block_count());
  for (int i = 0; i < n_layers; ++i) {
    const bool within_window = windows && (*windows)[static_cast<size_t>(i)];
    const Window window = windows && !within_window ? Window::kAll : Window::kOfFile;
    CHIMERE_TRY(const AttentionSpec attention, read_attention(keys, i, /*gated=*/false, window));
    CHIMERE_TRY(const DenseSpec network, read_dense(keys, i));
    model.layers.push_back({.mixers = {attention}, .network = network});
  }
  return model;
}

}  // namespace chimere::model
