// Zamba 2: Mamba 2 layers, some of which begin with a transformer block that several of them share.
// The names of its tensors and keys are our own: docs/convert.md.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "convert/families/registry.h"

namespace chimere::convert {
namespace zamba2 {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("zamba2"); }

/// The layers with a shared block, and the number of such blocks, which take turns.
struct Uses {
  std::vector<int64_t> layers;
  int64_t blocks = 1;
};

Result<Uses> uses_of(const Config& config) {
  CHIMERE_TRY(const int64_t layers, config.layers());
  CHIMERE_TRY(const auto types, config.texts({"layers_block_type", "layer_types"}));
  if (!types || types->size() != static_cast<size_t>(layers)) {
    return invalid_data("config.json: 'layers_block_type' must name " + std::to_string(layers) +
                        " layers");
  }
  Uses uses;
  for (int64_t i = 0; i < layers; ++i) {
    if ((*types)[static_cast<size_t>(i)] == "hybrid") uses.layers.push_back(i);
  }
  if (uses.layers.empty()) return unsupported("config.json: no layer of this Zamba 2 is 'hybrid'");
  CHIMERE_TRY(uses.blocks, config.integer_or({"num_mem_blocks"}, 1, 1,
                                             static_cast<int64_t>(uses.layers.size())));
  return uses;
}

/// A number between `begin` and the next '.', and the text behind that; nullopt if it is none.
struct Numbered {
  size_t number = 0;
  std::string_view rest;
};
std::optional<Numbered> numbered(std::string_view text) {
  Numbered out;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out.number);
  if (error != std::errc() || at == end || *at != '.') return std::nullopt;
  out.rest = text.substr(static_cast<size_t>(at - text.data()) + 1);
  return out;
}

/// A shared block's weights become "shared.<block>.", its adapters "uses.<layer>.". Files repeat
/// what several layers share: what is stored under a block's first layer counts.
Result<std::string> rename(const Config& config, const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return name;
  const auto layer = numbered(std::string_view(name).substr(kLayers.size()));
  if (!layer) return name;
  const std::string layer_name = std::string(kLayers) + std::to_string(layer->number) + ".";
  std::string_view rest = layer->rest;
  if (constexpr std::string_view kMamba = "mamba_decoder."; rest.starts_with(kMamba)) {
    return layer_name + std::string(rest.substr(kMamba.size()));
  }
  const bool shared = rest.starts_with("shared_transformer.") || rest.starts_with("shared_transf.");
  if (!shared) return name;
  rest = rest.substr(rest.find('.') + 1);
  CHIMERE_TRY(const Uses uses, uses_of(config));
  const auto use = std::ranges::find(uses.layers, static_cast<int64_t>(layer->number));
  if (use == uses.layers.end()) return name;  // no rule has it: refused by name
  const auto number = static_cast<int64_t>(use - uses.layers.begin());
  if (number >= uses.blocks) return std::string();
  constexpr std::string_view kList = "_adapter_list.";
  const size_t list = rest.find(kList);
  if (list == std::string_view::npos) {
    return "shared." + std::to_string(number) + "." + std::string(rest);
  }
  // "self_attn.linear_q_adapter_list.<use>.<0: A, 1: B>.weight"
  const auto of = numbered(rest.substr(list + kList.size()));
  const auto part = of ? numbered(of->rest) : std::nullopt;
  if (!part || part->number > 1 || of->number >= uses.layers.size() ||
      static_cast<int64_t>(of->number) % uses.blocks != number) {
    return name;
  }
  return "uses." + std::to_string(uses.layers[of->number]) + "." +
         std::string(rest.substr(0, list)) + (part->number == 0 ? "_a." : "_b.") +
         std::string(part->rest);
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out;
  add_ends(out);
  add_mamba2(out, "mamba");
  out.insert(out.end(), {{"final_layernorm", "output_norm"},
                         {"layers.*.input_layernorm", "blk.*.attn_norm"},
                         {"layers.*.linear", "blk.*.shared_out"},
                         {"shared.*.input_layernorm", "shared.*.attn_norm"},
                         {"shared.*.self_attn.q_proj", "shared.*.attn_q"},
                         {"shared.*.self_attn.k_proj", "shared.*.attn_k"},
                         {"shared.*.self_attn.v_proj", "shared.*.attn_v"},
                         {"shared.*.self_attn.o_proj", "shared.*.attn_output"},
                         {"shared.*.pre_ff_layernorm", "shared.*.ffn_norm"},
                         {"shared.*.feed_forward.gate_up_proj.weight",
                          "shared.*.ffn_gate.weight|shared.*.ffn_up.weight", halves},
                         {"shared.*.feed_forward.down_proj", "shared.*.ffn_down"}});
  for (const std::string end : {"_a", "_b"}) {
    for (const std::string head : {"q", "k", "v"}) {
      std::string theirs = "uses.*.self_attn.linear_";
      (theirs += head) += end;
      std::string ours = "blk.*.attn_";
      ((ours += head) += "_adapter") += end;
      out.push_back({theirs, ours});
    }
    out.push_back({"uses.*.feed_forward.gate_up_proj" + end, "blk.*.ffn_adapter" + end});
  }
  return out;
}

/// What the file cannot express.
Status check(const Config& config) {
  constexpr double kMixerEps = 1e-5;  // of the mixers' norms, whatever that of the others
  CHIMERE_TRY(const double eps, config.number_or({"rms_norm_eps"}, kMixerEps));
  CHIMERE_TRY(const bool biases, config.flag_or({"add_bias_linear"}, false));
  CHIMERE_TRY(const bool longer, config.flag_or({"use_long_context"}, false));
  CHIMERE_TRY(const std::string activation, config.text_or({"hidden_act"}, "gelu"));
  if (std::abs(eps - kMixerEps) > 1e-9) {
    return unsupported("config.json: 'rms_norm_eps' of a Zamba 2 must be 1e-05, as in its mixers");
  }
  if (biases) return unsupported("config.json: 'add_bias_linear' cannot be converted");
  if (longer) return unsupported("config.json: 'use_long_context' cannot be converted");
  if (activation != "gelu") {
    return unsupported("config.json: 'hidden_act' is '" + activation + "'; it must be 'gelu'");
  }
  return {};
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(check(config));
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  CHIMERE_TRY(const Uses uses, uses_of(config));
  CHIMERE_TRY(const int64_t width, config.integer({"hidden_size"}, 1, 1 << 24));
  CHIMERE_TRY(const int64_t heads, config.integer({"num_attention_heads"}, 1));
  CHIMERE_TRY(const int64_t kv_heads, config.integer_or({"num_key_value_heads"}, heads, 1));
  CHIMERE_TRY(const int64_t head, config.integer_or({"attention_head_dim"}, 2 * width / heads, 1));
  CHIMERE_TRY(const bool rotated, config.flag_or({"use_mem_rope"}, false));
  CHIMERE_TRY(const int64_t network, config.integer_or({"intermediate_size"}, 4 * width, 1));
  CHIMERE_TRY(const double eps, config.number_or({"rms_norm_eps"}, 1e-5));
  CHIMERE_TRY(const int64_t expand, config.integer_or({"mamba_expand"}, 2, 1, 64));
  CHIMERE_TRY(const int64_t taps, config.integer_or({"mamba_d_conv"}, 4, 1));
  CHIMERE_TRY(const int64_t state, config.integer_or({"mamba_d_state"}, 64, 1));
  CHIMERE_TRY(const int64_t groups, config.integer_or({"mamba_ngroups"}, 1, 1));
  CHIMERE_TRY(const int64_t ssm_heads, config.integer_or({"n_mamba_heads"}, 8, 1));
  out.integer("feed_forward_length", network);
  out.number("attention.layer_norm_rms_epsilon", eps);
  out.integer("attention.key_length", head);
  out.integer("attention.value_length", head);
  out.integer("rope.dimension_count", head);
  out.flag("rope.scaling.finetuned", rotated);
  out.integer("shared_block_count", uses.blocks);
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.state_size", state);
  out.integer("ssm.group_count", groups);
  out.integer("ssm.inner_size", expand * width);
  out.integer("ssm.time_step_rank", ssm_heads);
  CHIMERE_TRY(const int64_t layers, config.layers());
  std::vector<int32_t> per_layer(static_cast<size_t>(layers), 0);
  for (const int64_t layer : uses.layers) {
    per_layer[static_cast<size_t>(layer)] = static_cast<int32_t>(kv_heads);
  }
  out.integers("attention.head_count_kv", per_layer);
  return {};
}

}  // namespace
}  // namespace zamba2

const Family& zamba2_family() {
  static const Family family = {
      .classes = {"Zamba2ForCausalLM"},
      .architecture = zamba2::architecture,
      .rules = zamba2::rules,
      .keys = zamba2::keys,
      .rename = zamba2::rename,
  };
  return family;
}

}  // namespace chimere::convert
