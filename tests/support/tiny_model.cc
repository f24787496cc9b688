#include "support/tiny_model.h"

#include <string>
#include <utility>

#include "support/family_model.h"
#include "support/random_tensors.h"
#include "support/vocabulary.h"

namespace chimere::test {
namespace {

class Maker : private RandomTensors {
 public:
  explicit Maker(const TinyModel& m)
      : RandomTensors(m.seed),
        m_(m),
        transformer_(m.architecture == "qwen3" || m.architecture == "qwen3moe"),
        experts_(m.architecture != "qwen35" && m.architecture != "qwen3") {}

  Result<gguf::Writer> make() {
    write_keys();
    write_vocabulary(writer(), m_.n_vocab);
    weight("token_embd.weight", {m_.n_embd, m_.n_vocab}, m_.embedding);
    norm("output_norm.weight", m_.n_embd);
    if (!m_.tied_head) weight("output.weight", {m_.n_embd, m_.n_vocab}, m_.head);
    for (int i = 0; i < m_.n_layers + m_.n_mtp_layers; ++i) write_block(i);
    return finish();
  }

 private:
  void write_keys();
  void write_block(int i);
  void write_delta_net(const std::string& b);
  void write_attention(const std::string& b);
  void write_experts(const std::string& b);

  const TinyModel& m_;
  bool transformer_;
  bool experts_;
};

void Maker::write_keys() {
  const std::string a = m_.architecture + ".";
  auto set = [&](const std::string& key, int v) {
    writer().set_u32(a + key, static_cast<uint32_t>(v));
  };
  writer().set_string("general.architecture", m_.architecture);
  writer().set_string("general.name", "tiny");
  set("block_count", m_.n_layers + m_.n_mtp_layers);
  set("context_length", 4096);
  set("embedding_length", m_.n_embd);
  set("attention.head_count", m_.n_heads);
  set("attention.head_count_kv", m_.n_kv_heads);
  set("attention.key_length", m_.head_dim);
  set("attention.value_length", m_.head_dim);
  writer().set_f32(a + "attention.layer_norm_rms_epsilon", 1e-6F);
  writer().set_f32(a + "rope.freq_base", 1e7F);
  set("rope.dimension_count", transformer_ ? m_.head_dim : m_.rope_dims);
  if (!transformer_) {
    const int pairs = m_.rope_dims / 2;
    writer().set_i32s(a + "rope.dimension_sections",
                      {pairs - 2 * (pairs / 3), pairs / 3, pairs / 3, 0});
  }
  if (!experts_) {
    set("feed_forward_length", m_.n_ff);
  } else {
    set("expert_count", m_.n_experts);
    set("expert_used_count", m_.n_used);
    set("expert_feed_forward_length", m_.n_ff);
    if (!transformer_) set("expert_shared_feed_forward_length", m_.n_ff_shared);
  }
  if (transformer_) {
    if (m_.pooling != 0) set("pooling_type", m_.pooling);
    return;
  }
  set("full_attention_interval", m_.attention_interval);
  set("ssm.conv_kernel", 4);
  set("ssm.state_size", m_.state_dim);
  set("ssm.group_count", m_.n_k_heads);
  set("ssm.time_step_rank", m_.n_v_heads);
  set("ssm.inner_size", m_.state_dim * m_.n_v_heads);
  if (m_.n_mtp_layers > 0) set("nextn_predict_layers", m_.n_mtp_layers);
}

void Maker::write_delta_net(const std::string& b) {
  const int key_dim = m_.n_k_heads * m_.state_dim;
  const int value_dim = m_.n_v_heads * m_.state_dim;
  const int conv_dim = 2 * key_dim + value_dim;
  const RandomMatrix qkv = draw({m_.n_embd, conv_dim}, m_.mixers);
  const RandomMatrix z = draw({m_.n_embd, value_dim}, m_.mixers);
  if (m_.fused_in) {
    fused(
        b + "ssm_in.weight",
        {rows(qkv, 0, key_dim), rows(qkv, key_dim, key_dim), rows(qkv, 2 * key_dim, value_dim), z},
        m_.n_k_heads);
  } else {
    add(b + "attn_qkv.weight", qkv);
    add(b + "attn_gate.weight", z);
  }
  weight(b + "ssm_conv1d.weight", {4, conv_dim}, DType::kF32);
  std::vector<float> dt(static_cast<size_t>(m_.n_v_heads));
  std::vector<float> a(dt.size());
  for (float& x : dt) x = 0.3F * normal();
  for (float& x : a) x = -(0.05F + uniform());
  vector(b + (m_.bare_dt ? "ssm_dt" : "ssm_dt.bias"), dt);
  vector(b + "ssm_a", a);
  const RandomMatrix beta = draw({m_.n_embd, m_.n_v_heads}, m_.mixers);
  const RandomMatrix alpha = draw({m_.n_embd, m_.n_v_heads}, m_.mixers);
  if (m_.fused_ba) {
    fused(b + "ssm_ba.weight", {beta, alpha}, m_.n_k_heads);
  } else {
    add(b + "ssm_beta.weight", beta);
    add(b + "ssm_alpha.weight", alpha);
  }
  norm(b + "ssm_norm.weight", m_.state_dim);
  weight(b + "ssm_out.weight", {value_dim, m_.n_embd}, m_.mixers);
}

void Maker::write_attention(const std::string& b) {
  const int kv_dim = m_.n_kv_heads * m_.head_dim;
  const int query_dim = (transformer_ ? 1 : 2) * m_.head_dim;  // each query is followed by a gate
  const RandomMatrix q = draw({m_.n_embd, m_.n_heads * query_dim}, m_.mixers);
  const RandomMatrix k = draw({m_.n_embd, kv_dim}, m_.mixers);
  const RandomMatrix v = draw({m_.n_embd, kv_dim}, m_.mixers);
  if (m_.fused_attention) {
    fused(b + "attn_qkv.weight", {q, k, v}, 1);
  } else {
    add(b + "attn_q.weight", q);
    add(b + "attn_k.weight", k);
    add(b + "attn_v.weight", v);
  }
  weight(b + "attn_output.weight", {m_.n_heads * m_.head_dim, m_.n_embd}, m_.mixers);
  norm(b + "attn_q_norm.weight", m_.head_dim);
  norm(b + "attn_k_norm.weight", m_.head_dim);
}

void Maker::write_experts(const std::string& b) {
  weight(b + "ffn_gate_inp.weight", {m_.n_embd, m_.n_experts}, DType::kF32);
  const RandomMatrix gate = draw({m_.n_embd, m_.n_ff, m_.n_experts}, m_.experts);
  const RandomMatrix up = draw({m_.n_embd, m_.n_ff, m_.n_experts}, m_.experts);
  if (m_.fused_gate_up) {
    fused(b + "ffn_gate_up_exps.weight", {gate, up}, m_.n_experts);
  } else {
    add(b + "ffn_gate_exps.weight", gate);
    add(b + "ffn_up_exps.weight", up);
  }
  weight(b + "ffn_down_exps.weight", {m_.n_ff, m_.n_embd, m_.n_experts}, m_.experts);
  if (transformer_) return;
  weight(b + "ffn_gate_inp_shexp.weight", {m_.n_embd}, DType::kF32);
  weight(b + "ffn_gate_shexp.weight", {m_.n_embd, m_.n_ff_shared}, m_.mixers);
  weight(b + "ffn_up_shexp.weight", {m_.n_embd, m_.n_ff_shared}, m_.mixers);
  weight(b + "ffn_down_shexp.weight", {m_.n_ff_shared, m_.n_embd}, m_.mixers);
}

void Maker::write_block(int i) {
  const std::string b = "blk." + std::to_string(i) + ".";
  const bool recurrent = !transformer_ && i < m_.n_layers && (i + 1) % m_.attention_interval != 0;
  norm(b + "attn_norm.weight", m_.n_embd);
  norm(b + (transformer_ ? "ffn_norm.weight" : "post_attention_norm.weight"), m_.n_embd);
  if (recurrent) {
    write_delta_net(b);
  } else {
    write_attention(b);
  }
  if (!experts_) {
    weight(b + "ffn_gate.weight", {m_.n_embd, m_.n_ff}, m_.experts);
    weight(b + "ffn_up.weight", {m_.n_embd, m_.n_ff}, m_.experts);
    weight(b + "ffn_down.weight", {m_.n_ff, m_.n_embd}, m_.experts);
  } else {
    write_experts(b);
  }
  if (i >= m_.n_layers) {
    weight(b + "nextn.eh_proj.weight", {2 * m_.n_embd, m_.n_embd}, m_.mixers);
    norm(b + "nextn.enorm.weight", m_.n_embd);
    norm(b + "nextn.hnorm.weight", m_.n_embd);
    norm(b + "nextn.shared_head_norm.weight", m_.n_embd);
    if (m_.mtp_tables) {
      weight(b + "nextn.embed_tokens.weight", {m_.n_embd, m_.n_vocab}, m_.embedding);
      weight(b + "nextn.shared_head_head.weight", {m_.n_embd, m_.n_vocab}, m_.head);
    }
  }
}

}  // namespace

Result<gguf::Writer> make_tiny_model(const TinyModel& model) {
  return is_family(model.architecture) ? make_family_model(model) : Maker(model).make();
}

}  // namespace chimere::test
