// Mamba 2.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace mamba2 {
namespace {

constexpr int64_t kUnboundedContext = 1 << 20;

Result<std::string> architecture(const Config& /*config*/) { return std::string("mamba2"); }

Result<Rules> rules(const Config& /*config*/) {
  Rules out = {{"embeddings", "token_embd"},
               {"embedding", "token_embd"},
               {"lm_head", "output"},
               {"norm_f", "output_norm"},
               {"layers.*.norm", "blk.*.attn_norm"}};
  add_mamba2(out, "mixer");
  return out;
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_TRY(const int64_t width, config.integer({"hidden_size", "d_model", "dim"}, 1, 1 << 24));
  CHIMERE_TRY(const int64_t layers, config.layers());
  CHIMERE_TRY(const int64_t expand, config.integer_or({"mamba_expand", "expand"}, 2, 1, 64));
  CHIMERE_TRY(const int64_t inner,
              config.integer_or({"intermediate_size", "d_inner"}, expand * width, 1));
  CHIMERE_TRY(const int64_t taps, config.integer_or({"conv_kernel", "d_conv"}, 4, 1));
  CHIMERE_TRY(const int64_t state, config.integer_or({"state_size", "d_state"}, 128, 1));
  CHIMERE_TRY(const int64_t head, config.integer_or({"mamba_d_head", "head_dim"}, 64, 1));
  CHIMERE_TRY(const int64_t groups, config.integer_or({"n_groups"}, 1, 1));
  CHIMERE_TRY(const double eps, config.number_or({"layer_norm_epsilon", "rms_norm_eps"}, 1e-5));
  if (inner % head != 0) {
    return invalid_data("config.json: the inner size " + std::to_string(inner) +
                        " must be a multiple of head_dim (" + std::to_string(head) + ")");
  }
  out.integer("context_length", kUnboundedContext);
  out.integer("embedding_length", width);
  out.integer("feed_forward_length", 0);
  out.integer("attention.head_count", 0);
  out.integer("block_count", layers);
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.inner_size", inner);
  out.integer("ssm.state_size", state);
  out.integer("ssm.time_step_rank", inner / head);
  out.integer("ssm.group_count", groups);
  out.number("attention.layer_norm_rms_epsilon", eps);
  return {};
}

}  // namespace
}  // namespace mamba2

const Family& mamba2_family() {
  static const Family family = {
      .classes = {"Mamba2ForCausalLM"},
      .architecture = mamba2::architecture,
      .rules = mamba2::rules,
      .keys = mamba2::keys,
  };
  return family;
}

}  // namespace chimere::convert
