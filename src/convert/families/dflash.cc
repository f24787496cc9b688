// DFlash (arXiv:2602.06036): block drafters, as z-lab publishes them. They use the embeddings, the
// output matrix and the tokenizer of the model that they draft for, their target.
#include <algorithm>
#include <cmath>

#include "convert/families/registry.h"

namespace chimere::convert {
namespace dflash {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kUsualBlock = 16;
constexpr int64_t kLargestBlock = 64;

Result<std::string> architecture(const Config& config) {
  CHIMERE_TRY(const std::string activation, config.text_or({"hidden_act"}, "silu"));
  CHIMERE_TRY(const bool bias, config.flag_or({"attention_bias"}, false));
  if (activation != "silu" || bias) {
    return unsupported("config.json has hidden_act '" + activation + "' and attention_bias " +
                       (bias ? "true" : "false") + "; files of dflash have silu and no biases");
  }
  if (config.rope_type() == "llama3") {
    return unsupported(
        "config.json scales rotary positions by 'llama3', which files of dflash cannot say");
  }
  return std::string("dflash");
}

/// Layers for a configuration without "target_layer_ids": from layer 1 to the third from the end,
/// evenly spaced, halves rounded to even.
Result<std::vector<int64_t>> spread_layers(const Config& config) {
  if (!config.has({"num_target_layers"})) {
    return invalid_data(
        "config.json has neither 'dflash_config.target_layer_ids' nor 'num_target_layers'");
  }
  CHIMERE_TRY(const int64_t of, config.integer({"num_target_layers"}, 1, kMaxLayers));
  CHIMERE_TRY(const int64_t count, config.layers());
  if (count == 1) return std::vector<int64_t>{of / 2};
  const int64_t span = of - 4;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    const double place = 1 + static_cast<double>(i * span) / static_cast<double>(count - 1);
    out.push_back(static_cast<int64_t>(std::nearbyint(place)));
  }
  return out;
}

/// The layers of the target whose outputs the drafter reads, counted from 0.
Result<std::vector<int64_t>> tapped_layers(const Config& config) {
  std::vector<int64_t> layers;
  if (config.has({"dflash_config.target_layer_ids"})) {
    CHIMERE_TRY(layers, config.integers({"dflash_config.target_layer_ids"}, 0, kMaxLayers - 1));
  } else {
    CHIMERE_TRY(layers, spread_layers(config));
  }
  CHIMERE_TRY(const int64_t of, config.integer_or({"num_target_layers"}, kMaxLayers, 1));
  int64_t lowest = 0;
  for (const int64_t layer : layers) {
    if (layer < lowest || layer >= of) {
      return invalid_data("config.json: layer " + std::to_string(layer) +
                          " of the target cannot be read; the layers ('target_layer_ids' of "
                          "'dflash_config') must rise, from " +
                          std::to_string(lowest) + " here, and be below " + std::to_string(of) +
                          " ('num_target_layers')");
    }
    lowest = layer + 1;
  }
  return layers;
}

/// From the outputs of the tapped layers, side by side, to the drafter's width.
Result<NamedTensors> fusion(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const int64_t width, site.config.integer({"hidden_size"}, 1));
  CHIMERE_TRY(const std::vector<int64_t> layers, tapped_layers(site.config));
  const int64_t all = width * static_cast<int64_t>(layers.size());
  if (tensor.shape != std::vector<int64_t>{width, all}) {
    return invalid_data("the tensor '" + site.name + "' must have the shape [" +
                        std::to_string(width) + ", " + std::to_string(all) +
                        "]: hidden_size, and as much for each of " + std::to_string(layers.size()) +
                        " layers of the target");
  }
  return only(site, std::move(tensor));
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_attention(out);
  add_dense(out);
  out.insert(out.end(), {{"layers.*.post_attention_layernorm", "blk.*.ffn_norm"},
                         {"norm", "output_norm"},
                         {"hidden_norm", "enc.output_norm"},
                         {"fc.weight", "fc.weight", fusion}});
  return out;
}

/// Which layers attend within the window, as transformers' Qwen3Config decides it.
Result<std::vector<bool>> layers_with_window(const Config& config) {
  CHIMERE_TRY(const int64_t layers, config.layers());
  CHIMERE_TRY(const auto types, config.texts({"layer_types"}));
  std::vector<bool> out;
  if (!types) {
    constexpr int64_t kUsualFirst = 28;
    CHIMERE_TRY(const int64_t first, config.integer_or({"max_window_layers"}, kUsualFirst));
    for (int64_t i = 0; i < layers; ++i) out.push_back(i >= first);
    return out;
  }
  for (const std::string& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      return unsupported("config.json: layer_types has the unknown layer '" + type + "'");
    }
    out.push_back(type == "sliding_attention");
  }
  if (static_cast<int64_t>(out.size()) != layers) {
    return invalid_data("config.json: layer_types has " + std::to_string(out.size()) +
                        " entries for " + std::to_string(layers) + " layers");
  }
  return out;
}

Status write_window_keys(const Config& config, KeyWriter& out) {
  CHIMERE_TRY(const bool used, config.flag_or({"use_sliding_window"}, false));
  CHIMERE_TRY(const int64_t window, config.integer_or({"sliding_window"}, 0));
  if (!used || window == 0) return {};
  CHIMERE_TRY(const std::vector<bool> within, layers_with_window(config));
  if (std::ranges::find(within, true) == within.end()) return {};
  out.integer("attention.sliding_window", window);
  out.flags("attention.sliding_window_pattern", within);
  return {};
}

Status write_sizes(const Config& config, KeyWriter& out) {
  struct Row {
    std::string_view from;
    std::string_view to;
  };
  constexpr Row kSizes[] = {{"num_hidden_layers", "block_count"},
                            {"max_position_embeddings", "context_length"},
                            {"hidden_size", "embedding_length"},
                            {"intermediate_size", "feed_forward_length"},
                            {"num_attention_heads", "attention.head_count"},
                            {"num_key_value_heads", "attention.head_count_kv"},
                            {"vocab_size", "vocab_size"}};
  for (const auto& [from, to] : kSizes) {
    CHIMERE_TRY(const int64_t size, config.integer({from}, 1));
    out.integer(to, size);
  }
  CHIMERE_TRY(const int64_t dims, config.head_dim());
  out.integer("attention.key_length", dims);
  out.integer("attention.value_length", dims);
  CHIMERE_TRY(const double eps, config.number({"rms_norm_eps"}));
  out.number("attention.layer_norm_rms_epsilon", eps);
  return {};
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_sizes(config, out));
  if (config.rope("rope_theta") == nullptr) return invalid_data("config.json has no 'rope_theta'");
  CHIMERE_CHECK_OK(write_rope_keys(config, out));
  CHIMERE_CHECK_OK(write_window_keys(config, out));
  CHIMERE_TRY(const int64_t block,
              config.integer_or({"block_size"}, kUsualBlock, 2, kLargestBlock));
  out.integer("block_size", block);
  CHIMERE_TRY(const std::vector<int64_t> layers, tapped_layers(config));
  std::vector<int32_t> inputs;  // the output of a layer is the input of the next one
  for (const int64_t layer : layers) inputs.push_back(static_cast<int32_t>(layer + 1));
  out.integers("target_layers", inputs);
  CHIMERE_TRY(const int64_t vocabulary, config.integer({"vocab_size"}, 1));
  CHIMERE_TRY(const int64_t mask,
              config.integer({"dflash_config.mask_token_id"}, 0, vocabulary - 1));
  out.file().set_u32("tokenizer.ggml.mask_token_id", static_cast<uint32_t>(mask));
  return {};
}

}  // namespace
}  // namespace dflash

const Family& dflash_family() {
  static const Family family = {
      .classes = {"DFlashDraftModel"},
      .architecture = dflash::architecture,
      .rules = dflash::rules,
      .keys = dflash::keys,
      .drafter = true,
  };
  return family;
}

}  // namespace chimere::convert
