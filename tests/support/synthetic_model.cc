#include "support/synthetic_model.h"

#include <string>

#include "model/layers/dense_network.h"
#include "model/layers/experts.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/self_attention.h"
#include "support/random_tensors.h"

namespace chimere::test {
namespace {

using kernels::Activation;
using model::LayerSpec;
using model::SharedExpert;

constexpr int kBlocks = 6;
constexpr int kExperts = 8;
constexpr int kUsed = 3;

}  // namespace

Result<model::ModelSpec> synthetic(const model::Keys& keys) {
  CHIMERE_TRY(model::ModelSpec model, read_model(keys));
  CHIMERE_TRY(model.embedding_scale, keys.positive("embedding_scale"));
  CHIMERE_TRY(model.logit_scale, keys.positive("logit_scale"));
  CHIMERE_TRY(const float residual_scale, keys.positive("residual_scale"));
  CHIMERE_TRY(const auto delta_net, read_delta_net(keys, model::HeadOrder::kTiled));

  CHIMERE_TRY(const auto gated, read_attention(keys, 0, /*gated=*/true));
  CHIMERE_TRY(auto plain, read_attention(keys, 2, /*gated=*/false));
  plain.qk_norm = false;
  plain.shape.rope_dims = 0;
  CHIMERE_TRY(plain.shape.scale, keys.positive("plain_attention_scale"));
  CHIMERE_TRY(const auto one_kv_head, read_attention(keys, 3, /*gated=*/false));

  CHIMERE_TRY(auto ungated_dense, read_dense(keys, 1));
  ungated_dense.gated = false;
  ungated_dense.activation = Activation::kReluSquared;
  CHIMERE_TRY(const auto beside, read_dense(keys, 4));
  CHIMERE_TRY(auto gelu_dense, read_dense(keys, 5));
  gelu_dense.activation = Activation::kGelu;

  CHIMERE_TRY(const auto shared, read_experts(keys, 2, SharedExpert::kUngated));
  CHIMERE_TRY(auto ungated_experts, read_experts(keys, 3, SharedExpert::kNone));
  ungated_experts.gated = false;
  ungated_experts.activation = Activation::kGelu;

  model.layers = {
      LayerSpec{.mixers = {gated, delta_net}, .residual_scale = residual_scale},
      LayerSpec{.network = ungated_dense},
      LayerSpec{.mixers = {plain}, .network = shared, .residual_scale = residual_scale},
      LayerSpec{.mixers = {one_kv_head}, .network = ungated_experts},
      LayerSpec{.mixers = {delta_net}, .network_norm = "", .network = beside},
      LayerSpec{.network = gelu_dense, .residual_scale = residual_scale},
  };
  return model;
}

namespace {

class SyntheticMaker : private RandomTensors {
 public:
  explicit SyntheticMaker(const TinyModel& m) : RandomTensors(m.seed), m_(m) {}

  Result<gguf::Writer> make() {
    write_keys();
    weight("token_embd.weight", {m_.n_embd, m_.n_vocab}, m_.embedding);
    norm("output_norm.weight", m_.n_embd);
    if (!m_.tied_head) weight("output.weight", {m_.n_embd, m_.n_vocab}, m_.head);
    for (const int block : {0, 2, 3, 4}) norm(name(block, "attn_norm.weight"), m_.n_embd);
    for (const int block : {1, 2, 3, 5}) norm(name(block, "ffn_norm.weight"), m_.n_embd);
    write_attention(0, m_.n_kv_heads, /*query_dim=*/2 * m_.head_dim, /*norms=*/true);
    write_delta_net(0);
    write_dense(1, 2 * m_.n_ff, /*gated=*/false);
    write_attention(2, m_.n_heads, m_.head_dim, /*norms=*/false);
    write_experts(2, /*gated=*/true);
    write_shared_expert(2);
    write_attention(3, 1, m_.head_dim, /*norms=*/true);
    write_experts(3, /*gated=*/false);
    write_delta_net(4);
    write_dense(4, m_.n_ff, /*gated=*/true);
    write_dense(5, m_.n_ff, /*gated=*/true);
    return finish();
  }

 private:
  static std::string name(int block, const char* tensor) {
    return "blk." + std::to_string(block) + "." + tensor;
  }

  void write_keys() {
    gguf::Writer& w = writer();
    const std::string prefix = std::string(kSynthetic) + ".";
    const auto set = [&](const char* key, int v) {
      w.set_u32(prefix + key, static_cast<uint32_t>(v));
    };
    w.set_string("general.architecture", kSynthetic);
    set("block_count", kBlocks);
    set("context_length", 4096);
    set("embedding_length", m_.n_embd);
    set("attention.head_count", m_.n_heads);
    w.set_i32s(prefix + "attention.head_count_kv", {m_.n_kv_heads, 0, m_.n_heads, 1, 0, 0});
    set("attention.key_length", m_.head_dim);
    set("attention.value_length", m_.head_dim);
    w.set_f32(prefix + "attention.layer_norm_rms_epsilon", 1e-6F);
    w.set_f32(prefix + "plain_attention_scale", 0.2F);
    w.set_f32(prefix + "rope.freq_base", 1e4F);
    set("rope.dimension_count", m_.rope_dims);
    w.set_i32s(prefix + "feed_forward_length", {0, 2 * m_.n_ff, 0, 0, m_.n_ff, m_.n_ff});
    set("expert_count", kExperts);
    set("expert_used_count", kUsed);
    set("expert_feed_forward_length", m_.n_ff);
    set("expert_shared_feed_forward_length", m_.n_ff_shared);
    set("expert_gating_func", 2);
    set("expert_group_count", 4);
    set("expert_group_used_count", 2);
    w.set_f32(prefix + "expert_weights_scale", 1.5F);
    w.set_f32(prefix + "embedding_scale", 3.0F);
    w.set_f32(prefix + "residual_scale", 0.5F);
    w.set_f32(prefix + "logit_scale", 0.25F);
    set("ssm.conv_kernel", 4);
    set("ssm.state_size", m_.state_dim);
    set("ssm.group_count", m_.n_k_heads);
    set("ssm.time_step_rank", m_.n_v_heads);
    set("ssm.inner_size", m_.state_dim * m_.n_v_heads);
  }

  void write_attention(int block, int n_kv_heads, int query_dim, bool norms) {
    weight(name(block, "attn_q.weight"), {m_.n_embd, m_.n_heads * query_dim}, m_.mixers);
    weight(name(block, "attn_k.weight"), {m_.n_embd, n_kv_heads * m_.head_dim}, m_.mixers);
    weight(name(block, "attn_v.weight"), {m_.n_embd, n_kv_heads * m_.head_dim}, m_.mixers);
    weight(name(block, "attn_output.weight"), {m_.n_heads * m_.head_dim, m_.n_embd}, m_.mixers);
    if (!norms) return;
    norm(name(block, "attn_q_norm.weight"), m_.head_dim);
    norm(name(block, "attn_k_norm.weight"), m_.head_dim);
  }

  void write_delta_net(int block) {
    const int value_dim = m_.n_v_heads * m_.state_dim;
    const int conv_dim = 2 * m_.n_k_heads * m_.state_dim + value_dim;
    weight(name(block, "attn_qkv.weight"), {m_.n_embd, conv_dim}, m_.mixers);
    weight(name(block, "attn_gate.weight"), {m_.n_embd, value_dim}, m_.mixers);
    weight(name(block, "ssm_conv1d.weight"), {4, conv_dim}, DType::kF32);
    bias(name(block, "ssm_dt.bias"), m_.n_v_heads, 0.3F);
    std::vector<float> a(static_cast<size_t>(m_.n_v_heads));
    for (float& x : a) x = -(0.05F + uniform());
    vector(name(block, "ssm_a"), a);
    weight(name(block, "ssm_beta.weight"), {m_.n_embd, m_.n_v_heads}, m_.mixers);
    weight(name(block, "ssm_alpha.weight"), {m_.n_embd, m_.n_v_heads}, m_.mixers);
    norm(name(block, "ssm_norm.weight"), m_.state_dim);
    weight(name(block, "ssm_out.weight"), {value_dim, m_.n_embd}, m_.mixers);
  }

  void write_dense(int block, int n_ff, bool gated) {
    if (gated) weight(name(block, "ffn_gate.weight"), {m_.n_embd, n_ff}, m_.experts);
    weight(name(block, "ffn_up.weight"), {m_.n_embd, n_ff}, m_.experts);
    weight(name(block, "ffn_down.weight"), {n_ff, m_.n_embd}, m_.experts);
  }

  void write_experts(int block, bool gated) {
    weight(name(block, "ffn_gate_inp.weight"), {m_.n_embd, kExperts}, DType::kF32);
    bias(name(block, "exp_probs_b.bias"), kExperts, 0.2F);
    if (gated) {
      weight(name(block, "ffn_gate_exps.weight"), {m_.n_embd, m_.n_ff, kExperts}, m_.experts);
    }
    weight(name(block, "ffn_up_exps.weight"), {m_.n_embd, m_.n_ff, kExperts}, m_.experts);
    weight(name(block, "ffn_down_exps.weight"), {m_.n_ff, m_.n_embd, kExperts}, m_.experts);
  }

  void write_shared_expert(int block) {
    weight(name(block, "ffn_gate_shexp.weight"), {m_.n_embd, m_.n_ff_shared}, m_.mixers);
    weight(name(block, "ffn_up_shexp.weight"), {m_.n_embd, m_.n_ff_shared}, m_.mixers);
    weight(name(block, "ffn_down_shexp.weight"), {m_.n_ff_shared, m_.n_embd}, m_.mixers);
  }

  const TinyModel& m_;
};

}  // namespace

Result<gguf::Writer> make_synthetic_model(const TinyModel& shape) {
  return SyntheticMaker(shape).make();
}

Result<gguf::Writer> make_any_model(const TinyModel& shape) {
  return shape.architecture == kSynthetic ? make_synthetic_model(shape) : make_tiny_model(shape);
}

Result<std::unique_ptr<model::Model>> load_any_model(const gguf::Reader& file, kernels::Ops& ops,
                                                     const model::ModelOptions& options) {
  CHIMERE_TRY(const std::string architecture, file.get_string("general.architecture"));
  return architecture == kSynthetic ? model::load_model_as(synthetic, file, ops, options)
                                    : model::load_model(file, ops, options);
}

}  // namespace chimere::test
