#include "convert/families/delta_net.h"

namespace chimere::convert {
namespace {

constexpr int64_t kMaxHeads = 65536;

}  // namespace

Result<DeltaNetSizes> read_delta_net_sizes(const Config& config) {
  DeltaNetSizes out{};
  CHIMERE_TRY(out.key_heads, config.integer({"linear_num_key_heads"}, 1, kMaxHeads));
  CHIMERE_TRY(out.value_heads, config.integer({"linear_num_value_heads"}, 1, kMaxHeads));
  CHIMERE_TRY(out.key_dim, config.integer({"linear_key_head_dim"}, 1, kMaxHeads));
  CHIMERE_TRY(out.value_dim, config.integer({"linear_value_head_dim"}, 1, kMaxHeads));
  if (out.value_heads % out.key_heads != 0) {
    return invalid_data("config.json: linear_num_value_heads (" + std::to_string(out.value_heads) +
                        ") must be a multiple of linear_num_key_heads (" +
                        std::to_string(out.key_heads) + ")");
  }
  return out;
}

Status write_delta_net_keys(const Config& config, KeyWriter& out) {
  CHIMERE_TRY(const DeltaNetSizes sizes, read_delta_net_sizes(config));
  CHIMERE_TRY(const int64_t taps, config.integer({"linear_conv_kernel_dim"}, 1));
  CHIMERE_TRY(const int64_t interval, config.integer_or({"full_attention_interval"}, 4, 1));
  CHIMERE_TRY(const int64_t dims, config.head_dim());
  CHIMERE_TRY(const double part, config.rope_number_or("partial_rotary_factor", 0.25));
  CHIMERE_TRY(const auto types, config.texts({"layer_types"}));
  // The file says the interval, not the list.
  for (size_t i = 0; types && i < types->size(); ++i) {
    const bool full = (i + 1) % static_cast<size_t>(interval) == 0;
    if ((*types)[i] != (full ? "full_attention" : "linear_attention")) {
      return unsupported("config.json: layer_types[" + std::to_string(i) + "] is '" + (*types)[i] +
                         "', but full_attention_interval is " + std::to_string(interval));
    }
  }
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.state_size", sizes.key_dim);
  out.integer("ssm.group_count", sizes.key_heads);
  out.integer("ssm.time_step_rank", sizes.value_heads);
  out.integer("ssm.inner_size", sizes.value_heads * sizes.value_dim);
  out.integer("full_attention_interval", interval);
  out.integer("rope.dimension_count", static_cast<int64_t>(static_cast<double>(dims) * part));
  if (config.has({"moe_intermediate_size"})) {
    CHIMERE_TRY(const int64_t width, config.integer({"moe_intermediate_size"}, 1));
    out.integer("expert_feed_forward_length", width);
  }
  if (config.has({"shared_expert_intermediate_size"})) {
    CHIMERE_TRY(const int64_t width, config.integer({"shared_expert_intermediate_size"}, 1));
    out.integer("expert_shared_feed_forward_length", width);
  }
  return {};
}

}  // namespace chimere::convert
