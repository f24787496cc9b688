// Qwen3-Next. Heads keep the published order.
#include "convert/families/delta_net.h"
#include "convert/families/registry.h"

namespace chimere::convert {
namespace qwen3next {
namespace {

Result<std::string> architecture(const Config& /*config*/) { return std::string("qwen3next"); }

/// Rows of q, k, v and z of each key head to all q, k and v, and all z.
Result<NamedTensors> by_kind(const Site& site, Tensor tensor) {
  CHIMERE_TRY(const DeltaNetSizes sizes, read_delta_net_sizes(site.config));
  const int64_t values = sizes.value_heads / sizes.key_heads * sizes.value_dim;
  const int64_t each = 2 * sizes.key_dim + 2 * values;
  if (tensor.shape.size() != 2 || tensor.shape[0] != sizes.key_heads * each) {
    return invalid_data("the tensor '" + site.name + "' must have " +
                        std::to_string(sizes.key_heads * each) + " rows");
  }
  struct Part {
    int64_t at;
    int64_t count;
  };
  const Part parts[] = {{0, sizes.key_dim},
                        {sizes.key_dim, sizes.key_dim},
                        {2 * sizes.key_dim, values},
                        {2 * sizes.key_dim + values, values}};
  std::vector<int64_t> qkv;
  std::vector<int64_t> z;
  for (size_t part = 0; part < std::size(parts); ++part) {
    for (int64_t head = 0; head < sizes.key_heads; ++head) {
      for (int64_t i = 0; i < parts[part].count; ++i) {
        (part < 3 ? qkv : z).push_back(head * each + parts[part].at + i);
      }
    }
  }
  NamedTensors out;
  CHIMERE_TRY(Tensor first, reordered(tensor, std::move(qkv)));
  CHIMERE_TRY(Tensor second, reordered(std::move(tensor), std::move(z)));
  out.push_back({site.targets[0], std::move(first)});
  out.push_back({site.targets[1], std::move(second)});
  return out;
}

Result<Rules> rules(const Config& /*config*/) {
  Rules out = {{"embed_tokens", "token_embd"},
               {"lm_head", "output"},
               {"norm", "output_norm", plus_one},
               {"layers.*.input_layernorm", "blk.*.attn_norm", plus_one},
               {"layers.*.post_attention_layernorm", "blk.*.post_attention_norm", plus_one},
               {"layers.*.self_attn.q_proj", "blk.*.attn_q"},
               {"layers.*.self_attn.k_proj", "blk.*.attn_k"},
               {"layers.*.self_attn.v_proj", "blk.*.attn_v"},
               {"layers.*.self_attn.o_proj", "blk.*.attn_output"},
               {"layers.*.self_attn.q_norm", "blk.*.attn_q_norm", plus_one},
               {"layers.*.self_attn.k_norm", "blk.*.attn_k_norm", plus_one},
               {"layers.*.linear_attn.A_log", "blk.*.ssm_a", negative_exp},
               {"layers.*.linear_attn.dt_bias", "blk.*.ssm_dt.bias"},
               {"layers.*.linear_attn.conv1d", "blk.*.ssm_conv1d", convolution},
               {"layers.*.linear_attn.norm", "blk.*.ssm_norm"},
               {"layers.*.linear_attn.in_proj_qkvz", "blk.*.attn_qkv|blk.*.attn_gate", by_kind},
               {"layers.*.linear_attn.in_proj_ba", "blk.*.ssm_ba"},
               {"layers.*.linear_attn.out_proj", "blk.*.ssm_out"}};
  add_qwen_experts(out);
  add_dense(out);
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_CHECK_OK(write_text_keys(config, out));
  return write_delta_net_keys(config, out);
}

}  // namespace
}  // namespace qwen3next

const Family& qwen3next_family() {
  static const Family family = {
      .classes = {"Qwen3NextForCausalLM"},
      .architecture = qwen3next::architecture,
      .rules = qwen3next::rules,
      .keys = qwen3next::keys,
  };
  return family;
}

}  // namespace chimere::convert
