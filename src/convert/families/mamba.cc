// Mamba and FalconMamba.
#include "convert/families/registry.h"

namespace chimere::convert {
namespace mamba {
namespace {

constexpr int64_t kUnboundedContext = 1 << 20;

Result<std::string> architecture(const Config& /*config*/) { return std::string("mamba"); }

Result<Rules> rules(const Config& /*config*/) {
  return Rules{{"embeddings", "token_embd"},
               {"embedding", "token_embd"},
               {"lm_head", "output"},
               {"norm_f", "output_norm"},
               {"layers.*.norm", "blk.*.attn_norm"},
               {"layers.*.mixer.A_log", "blk.*.ssm_a", negative_exp},
               {"layers.*.mixer.D", "blk.*.ssm_d"},
               {"layers.*.mixer.conv1d", "blk.*.ssm_conv1d", convolution},
               {"layers.*.mixer.in_proj", "blk.*.ssm_in"},
               {"layers.*.mixer.x_proj", "blk.*.ssm_x"},
               {"layers.*.mixer.dt_proj", "blk.*.ssm_dt"},
               {"layers.*.mixer.out_proj", "blk.*.ssm_out"}};
}

Status keys(const Config& config, KeyWriter& out) {
  CHIMERE_TRY(const int64_t width, config.integer({"hidden_size", "d_model"}, 1, 1 << 24));
  CHIMERE_TRY(const int64_t layers, config.layers());
  CHIMERE_TRY(const int64_t taps, config.integer_or({"conv_kernel", "d_conv"}, 4, 1));
  CHIMERE_TRY(const int64_t inner,
              config.integer_or({"intermediate_size", "d_inner"}, 2 * width, 1));
  CHIMERE_TRY(const int64_t state, config.integer_or({"state_size", "d_state"}, 16, 1));
  constexpr int64_t kRankDivisor = 16;
  CHIMERE_TRY(const int64_t rank, config.integer_or({"time_step_rank", "dt_rank"},
                                                    (width + kRankDivisor - 1) / kRankDivisor, 1));
  CHIMERE_TRY(const double eps, config.number_or({"layer_norm_epsilon", "rms_norm_eps"}, 1e-5));
  out.integer("context_length", kUnboundedContext);
  out.integer("embedding_length", width);
  out.integer("feed_forward_length", 0);
  out.integer("attention.head_count", 0);
  out.integer("block_count", layers);
  out.integer("ssm.conv_kernel", taps);
  out.integer("ssm.inner_size", inner);
  out.integer("ssm.state_size", state);
  out.integer("ssm.time_step_rank", rank);
  out.number("attention.layer_norm_rms_epsilon", eps);
  // FalconMamba normalises the time steps, B and C.
  const bool normalised = config.model_class() == "FalconMambaForCausalLM";
  out.flag("ssm.dt_b_c_rms", normalised);
  if (normalised) {
    // A key of our own: llama.cpp takes the epsilon of the layers' norms.
    CHIMERE_TRY(const double inner_eps, config.number_or({"mixer_rms_eps"}, eps));
    out.number("ssm.dt_b_c_rms_epsilon", inner_eps);
  }
  return {};
}

}  // namespace
}  // namespace mamba

const Family& mamba_family() {
  static const Family family = {
      .classes = {"MambaForCausalLM", "MambaLMHeadModel", "FalconMambaForCausalLM"},
      .architecture = mamba::architecture,
      .rules = mamba::rules,
      .keys = mamba::keys,
      .extra = nullptr,
      .rename = nullptr,
      .drop_equal_output = true,
  };
  return family;
}

}  // namespace chimere::convert
