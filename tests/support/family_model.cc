#include "support/family_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "support/random_tensors.h"
#include "support/vocabulary.h"

namespace chimere::test {
namespace {

constexpr int kTaps = 4;
constexpr int kShortTaps = 3;
constexpr int kMambaStates = 16;  // of Mamba 1
constexpr int kRank = 6;          // of the projection to dt

class FamilyMaker : private RandomTensors {
 public:
  explicit FamilyMaker(const TinyModel& m)
      : RandomTensors(m.seed), m_(m), arch_(m.architecture), inner_(m.n_v_heads * m.state_dim) {}

  Result<gguf::Writer> make() {
    write_keys();
    write_vocabulary(writer(), m_.n_vocab);
    weight("token_embd.weight", {m_.n_embd, m_.n_vocab}, m_.embedding);
    norm(lfm2() ? "token_embd_norm.weight" : "output_norm.weight", m_.n_embd);
    if (!m_.tied_head) weight("output.weight", {m_.n_embd, m_.n_vocab}, m_.head);
    if (m_.rope_freqs) {
      std::vector<float> factors(static_cast<size_t>(m_.head_dim) / 2);
      for (float& f : factors) f = 1 + 7 * uniform();
      vector("rope_freqs.weight", factors);
    }
    for (int i = 0; is("zamba2") && i < zamba_blocks(); ++i) write_shared_block(i);
    for (int i = 0; i < m_.n_layers; ++i) write_block(i);
    return finish();
  }

 private:
  /// What a layer consists of.
  enum class Mixer { kNone, kAttention, kMamba, kMamba2, kAttentionAndMamba2, kConvolution };
  enum class Network { kNone, kDense, kExperts };

  bool is(std::string_view name) const { return arch_ == name; }
  bool lfm2() const { return arch_.starts_with("lfm2"); }
  bool gpt_oss() const { return is("gpt-oss"); }
  bool granite() const { return arch_.starts_with("granite"); }
  bool nemotron() const { return arch_.starts_with("nemotron"); }
  bool has_shared_expert() const { return is("nemotron_h_moe") || granite() || is("qwen2moe"); }
  bool attends(int i) const { return (i + 1) % m_.attention_interval == 0; }

  Mixer mixer(int i) const {
    if (is("mamba")) return Mixer::kMamba;
    if (is("mamba2")) return Mixer::kMamba2;
    if (is("falcon-h1")) return Mixer::kAttentionAndMamba2;
    if (is("zamba2")) return attends(i) ? Mixer::kAttentionAndMamba2 : Mixer::kMamba2;
    if (nemotron()) {
      return i % 3 == 0 ? Mixer::kMamba2 : i % 3 == 1 ? Mixer::kNone : Mixer::kAttention;
    }
    if (is("granitehybrid")) return attends(i) ? Mixer::kAttention : Mixer::kMamba2;
    if (is("jamba")) return attends(i) ? Mixer::kAttention : Mixer::kMamba;
    if (lfm2()) return attends(i) ? Mixer::kAttention : Mixer::kConvolution;
    return Mixer::kAttention;
  }
  Network network(int i) const {
    if (arch_.starts_with("mamba") || is("zamba2")) return Network::kNone;
    if (nemotron() && i % 3 != 1) return Network::kNone;
    if (is("nemotron_h_moe") || is("granitemoe") || is("granitehybrid") || is("qwen2moe")) {
      return Network::kExperts;
    }
    if (is("jamba")) return i % 2 == 1 ? Network::kExperts : Network::kDense;
    if (is("lfm2moe")) return i > 0 ? Network::kExperts : Network::kDense;
    if (is("gpt-oss") || m_.llama_experts) return Network::kExperts;
    return Network::kDense;
  }
  bool has_experts() const {
    for (int i = 0; i < m_.n_layers; ++i) {
      if (network(i) == Network::kExperts) return true;
    }
    return is("lfm2moe") || is("nemotron_h_moe");
  }
  bool attention_of(int i) const {
    return mixer(i) == Mixer::kAttention || mixer(i) == Mixer::kAttentionAndMamba2;
  }

  /// Shared blocks of zamba2, each of which some layer has.
  int zamba_blocks() const { return std::min(2, m_.n_layers / m_.attention_interval); }

  void set(const std::string& key, int v) {
    writer().set_u32(arch_ + "." + key, static_cast<uint32_t>(v));
  }
  void set(const std::string& key, float v) { writer().set_f32(arch_ + "." + key, v); }

  void write_keys();
  void write_expert_keys();
  void write_block(int i);
  /// "ffn_NAME_exps", or one tensor for each expert; dims [n_in, n_out, n_experts].
  void write_experts(const std::string& b, const std::string& name,
                     const std::vector<int64_t>& dims);
  void expert_biases(const std::string& name, int n);
  void write_attention(const std::string& b);
  void write_mamba(const std::string& b);
  void write_mamba2(const std::string& b);
  void write_shared_block(int number);
  void write_use_of_shared_block(const std::string& b);
  void write_convolution(const std::string& b);
  void write_network(const std::string& b, Network kind);
  /// f32 of any shape.
  void floats(const std::string& name, const std::vector<int64_t>& dims,
              const std::vector<float>& v) {
    RandomMatrix m = {dims, DType::kF32, std::vector<uint8_t>(v.size() * sizeof(float))};
    std::memcpy(m.data.data(), v.data(), m.data.size());
    add(name, m);
  }
  /// Decays, negative.
  std::vector<float> decays(int n) {
    std::vector<float> a(static_cast<size_t>(n));
    for (float& x : a) x = -(0.05F + 2 * uniform());
    return a;
  }

  const TinyModel& m_;
  const std::string arch_;
  const int inner_;
};

void FamilyMaker::write_keys() {
  writer().set_string("general.architecture", arch_);
  writer().set_string("general.name", "tiny");
  set("block_count", m_.n_layers);
  set("context_length", 4096);
  set("embedding_length", m_.n_embd);
  set("attention.layer_norm_rms_epsilon", 1e-5F);
  if (nemotron()) set("attention.layer_norm_epsilon", 1e-5F);
  set("vocab_size", m_.n_vocab);
  std::vector<int32_t> kv_heads;
  std::vector<int32_t> widths;
  bool mamba = false;
  bool mamba2 = false;
  for (int i = 0; i < m_.n_layers; ++i) {
    kv_heads.push_back(attention_of(i) ? m_.n_kv_heads : 0);
    widths.push_back(network(i) == Network::kNone ? 0 : m_.n_ff);
    mamba |= mixer(i) == Mixer::kMamba;
    mamba2 |= mixer(i) == Mixer::kMamba2 || mixer(i) == Mixer::kAttentionAndMamba2;
  }
  const bool attention = std::ranges::max(kv_heads) > 0;
  const bool same = std::ranges::min(kv_heads) == std::ranges::max(kv_heads);
  set("attention.head_count", arch_.starts_with("mamba") ? 0 : m_.n_heads);
  if (same && attention) {
    set("attention.head_count_kv", m_.n_kv_heads);
  } else if (!arch_.starts_with("mamba")) {
    writer().set_i32s(arch_ + ".attention.head_count_kv", kv_heads);
  }
  if (!arch_.starts_with("mamba")) {
    set("attention.key_length", m_.head_dim);
    set("attention.value_length", m_.head_dim);
    set("rope.freq_base", 1e4F);
    set("rope.dimension_count", m_.head_dim);
    if (m_.rope_scale != 1) {
      writer().set_string(arch_ + ".rope.scaling.type", m_.yarn ? "yarn" : "linear");
      set("rope.scaling.factor", m_.rope_scale);
      if (m_.yarn) set("rope.scaling.original_context_length", 256);
    }
    constexpr int kGptOssWindow = 24;
    const int window = gpt_oss() && m_.window == 0 ? kGptOssWindow : m_.window;
    if (window > 0) set("attention.sliding_window", window);
  }
  if (is("zamba2")) set("shared_block_count", zamba_blocks());
  if (nemotron()) {
    writer().set_i32s(arch_ + ".feed_forward_length", widths);
  } else {
    set("feed_forward_length", arch_.starts_with("mamba") ? 0 : m_.n_ff);
  }
  if (mamba || mamba2) {
    set("ssm.conv_kernel", kTaps);
    set("ssm.inner_size", inner_);
    set("ssm.state_size", mamba ? kMambaStates : m_.state_dim);
    set("ssm.time_step_rank", mamba ? kRank : m_.n_v_heads);
    if (mamba2) set("ssm.group_count", m_.n_k_heads);
    // FalconMamba's.
    if (is("mamba")) writer().set_bool("mamba.ssm.dt_b_c_rms", m_.seed % 2 == 1);
  }
  if (lfm2()) set("shortconv.l_cache", kShortTaps);
  if (granite()) {
    set("embedding_scale", 3.0F);
    set("residual_scale", 0.4F);
    set("attention.scale", 0.15F);
    set("logit_scale", 2.0F);
  }
  if (has_experts()) write_expert_keys();
}

void FamilyMaker::write_expert_keys() {
  set("expert_count", m_.n_experts);
  set("expert_used_count", std::min(m_.n_used, m_.n_experts));
  if (is("nemotron_h_moe") || is("lfm2moe") || is("qwen2moe") || gpt_oss()) {
    set("expert_feed_forward_length", m_.n_ff);
  }
  if (is("nemotron_h_moe") || is("lfm2moe")) {
    writer().set_bool(arch_ + ".expert_weights_norm", true);
  }
  if (is("nemotron_h_moe")) {
    set("expert_shared_count", 1);
    set("expert_weights_scale", 2.5F);
    set("expert_group_count", 1);
    set("expert_group_used_count", 1);
  }
  if (is("lfm2moe")) {
    set("leading_dense_block_count", 1);
    set("expert_gating_func", 2);
  }
  if (has_shared_expert()) set("expert_shared_feed_forward_length", m_.n_ff_shared);
}

void FamilyMaker::write_attention(const std::string& b) {
  const int kv_dim = m_.n_kv_heads * m_.head_dim;
  const RandomMatrix q = draw({m_.n_embd, m_.n_heads * m_.head_dim}, m_.mixers);
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
  if (arch_.starts_with("qwen2") || m_.qkv_bias || gpt_oss()) {
    bias(b + "attn_q.bias", m_.n_heads * m_.head_dim, 0.3F);
    bias(b + "attn_k.bias", kv_dim, 0.3F);
    bias(b + "attn_v.bias", kv_dim, 0.3F);
  }
  if (gpt_oss() || m_.all_biases) bias(b + "attn_output.bias", m_.n_embd, 0.3F);
  if (gpt_oss()) bias(b + "attn_sinks.weight", m_.n_heads, 1);
  if (!lfm2()) return;
  norm(b + "attn_q_norm.weight", m_.head_dim);
  norm(b + "attn_k_norm.weight", m_.head_dim);
}

void FamilyMaker::write_mamba(const std::string& b) {
  weight(b + "ssm_in.weight", {m_.n_embd, 2 * inner_}, m_.mixers);
  weight(b + "ssm_conv1d.weight", {kTaps, inner_}, DType::kF32);
  bias(b + "ssm_conv1d.bias", inner_, 0.2F);
  weight(b + "ssm_x.weight", {inner_, kRank + 2 * kMambaStates}, m_.mixers);
  weight(b + "ssm_dt.weight", {kRank, inner_}, m_.mixers);
  bias(b + "ssm_dt.bias", inner_, 0.5F);
  floats(b + "ssm_a", {kMambaStates, inner_}, decays(kMambaStates * inner_));
  bias(b + "ssm_d", inner_, 1);
  weight(b + "ssm_out.weight", {inner_, m_.n_embd}, m_.mixers);
  if (!is("jamba")) return;
  norm(b + "ssm_dt_norm.weight", kRank);
  norm(b + "ssm_b_norm.weight", kMambaStates);
  norm(b + "ssm_c_norm.weight", kMambaStates);
}

void FamilyMaker::write_mamba2(const std::string& b) {
  const int conv_dim = inner_ + 2 * m_.n_k_heads * m_.state_dim;
  weight(b + "ssm_in.weight", {m_.n_embd, inner_ + conv_dim + m_.n_v_heads}, m_.mixers);
  weight(b + "ssm_conv1d.weight", {kTaps, conv_dim}, DType::kF32);
  bias(b + "ssm_conv1d.bias", conv_dim, 0.2F);
  bias(b + "ssm_dt.bias", m_.n_v_heads, 0.5F);
  floats(b + "ssm_a", {1, m_.n_v_heads}, decays(m_.n_v_heads));
  std::vector<float> d(static_cast<size_t>(m_.n_v_heads));
  for (float& x : d) x = normal();
  floats(b + "ssm_d", {1, m_.n_v_heads}, d);
  if (!is("falcon-h1")) {
    std::vector<float> weights(static_cast<size_t>(inner_));
    for (float& x : weights) x = 1 + 0.1F * normal();
    floats(b + "ssm_norm.weight", {inner_ / m_.n_k_heads, m_.n_k_heads}, weights);
  }
  weight(b + "ssm_out.weight", {inner_, m_.n_embd}, m_.mixers);
}

void FamilyMaker::write_shared_block(int number) {
  const std::string b = "shared." + std::to_string(number) + ".";
  norm(b + "attn_norm.weight", 2 * m_.n_embd);
  weight(b + "attn_q.weight", {2 * m_.n_embd, m_.n_heads * m_.head_dim}, m_.mixers);
  weight(b + "attn_k.weight", {2 * m_.n_embd, m_.n_kv_heads * m_.head_dim}, m_.mixers);
  weight(b + "attn_v.weight", {2 * m_.n_embd, m_.n_kv_heads * m_.head_dim}, m_.mixers);
  weight(b + "attn_output.weight", {m_.n_heads * m_.head_dim, m_.n_embd}, m_.mixers);
  norm(b + "ffn_norm.weight", m_.n_embd);
  weight(b + "ffn_gate.weight", {m_.n_embd, m_.n_ff}, m_.experts);
  weight(b + "ffn_up.weight", {m_.n_embd, m_.n_ff}, m_.experts);
  weight(b + "ffn_down.weight", {m_.n_ff, m_.n_embd}, m_.experts);
}

void FamilyMaker::write_use_of_shared_block(const std::string& b) {
  constexpr int kAdapterRank = 8;
  const auto adapter = [&](const std::string& name, int n_out, int n_in) {
    weight(b + name + "_adapter_a.weight", {n_in, kAdapterRank}, m_.mixers);
    weight(b + name + "_adapter_b.weight", {kAdapterRank, n_out}, m_.mixers);
  };
  weight(b + "shared_out.weight", {m_.n_embd, m_.n_embd}, m_.mixers);
  adapter("ffn", 2 * m_.n_ff, m_.n_embd);
  if (m_.seed % 2 == 0) return;
  adapter("attn_q", m_.n_heads * m_.head_dim, 2 * m_.n_embd);
  adapter("attn_k", m_.n_kv_heads * m_.head_dim, 2 * m_.n_embd);
  adapter("attn_v", m_.n_kv_heads * m_.head_dim, 2 * m_.n_embd);
}

void FamilyMaker::write_convolution(const std::string& b) {
  weight(b + "shortconv.in_proj.weight", {m_.n_embd, 3 * m_.n_embd}, m_.mixers);
  weight(b + "shortconv.conv.weight", {kShortTaps, m_.n_embd}, DType::kF32);
  weight(b + "shortconv.out_proj.weight", {m_.n_embd, m_.n_embd}, m_.mixers);
}

void FamilyMaker::write_network(const std::string& b, Network kind) {
  const bool gated = !nemotron();
  if (kind == Network::kDense) {
    if (gated) weight(b + "ffn_gate.weight", {m_.n_embd, m_.n_ff}, m_.experts);
    weight(b + "ffn_up.weight", {m_.n_embd, m_.n_ff}, m_.experts);
    weight(b + "ffn_down.weight", {m_.n_ff, m_.n_embd}, m_.experts);
    if (!m_.all_biases) return;
    bias(b + "ffn_gate.bias", m_.n_ff, 0.3F);
    bias(b + "ffn_up.bias", m_.n_ff, 0.3F);
    bias(b + "ffn_down.bias", m_.n_embd, 0.3F);
    return;
  }
  weight(b + "ffn_gate_inp.weight", {m_.n_embd, m_.n_experts}, DType::kF32);
  if (nemotron() || lfm2()) bias(b + "exp_probs_b.bias", m_.n_experts, 0.2F);
  const std::vector<int64_t> wide = {m_.n_embd, m_.n_ff, m_.n_experts};
  if (gated) write_experts(b, "gate", wide);
  write_experts(b, "up", wide);
  write_experts(b, "down", {m_.n_ff, m_.n_embd, m_.n_experts});
  if (gpt_oss()) {
    bias(b + "ffn_gate_inp.bias", m_.n_experts, 0.3F);
    for (const char* name : {"gate", "up"}) {
      expert_biases(b + "ffn_" + name + "_exps.bias", m_.n_ff);
    }
    expert_biases(b + "ffn_down_exps.bias", m_.n_embd);
  }
  if (!has_shared_expert()) return;
  if (is("qwen2moe")) weight(b + "ffn_gate_inp_shexp.weight", {m_.n_embd}, DType::kF32);
  if (gated) weight(b + "ffn_gate_shexp.weight", {m_.n_embd, m_.n_ff_shared}, m_.mixers);
  weight(b + "ffn_up_shexp.weight", {m_.n_embd, m_.n_ff_shared}, m_.mixers);
  weight(b + "ffn_down_shexp.weight", {m_.n_ff_shared, m_.n_embd}, m_.mixers);
}

void FamilyMaker::write_experts(const std::string& b, const std::string& name,
                                const std::vector<int64_t>& dims) {
  const RandomMatrix all = draw(dims, m_.experts);
  if (!m_.separate_experts) return add(b + "ffn_" + name + "_exps.weight", all);
  const RandomMatrix stacked = {{dims[0], dims[1] * dims[2]}, all.type, all.data};
  for (int64_t e = 0; e < dims[2]; ++e) {
    std::string expert = b;
    expert.append("ffn_").append(name).append(".").append(std::to_string(e)).append(".weight");
    add(expert, rows(stacked, e * dims[1], dims[1]));
  }
}

void FamilyMaker::expert_biases(const std::string& name, int n) {
  std::vector<float> all(static_cast<size_t>(n) * static_cast<size_t>(m_.n_experts));
  for (float& x : all) x = 0.3F * normal();
  floats(name, {n, m_.n_experts}, all);
}

void FamilyMaker::write_block(int i) {
  const std::string b = "blk." + std::to_string(i) + ".";
  norm(b + "attn_norm.weight", m_.n_embd);
  const Mixer kind = mixer(i);
  if (is("zamba2") && attention_of(i)) {
    write_use_of_shared_block(b);
  } else if (attention_of(i)) {
    write_attention(b);
  }
  if (kind == Mixer::kMamba) write_mamba(b);
  if (kind == Mixer::kMamba2 || kind == Mixer::kAttentionAndMamba2) write_mamba2(b);
  if (kind == Mixer::kConvolution) write_convolution(b);
  if (network(i) == Network::kNone) return;
  // Converters leave the suffix of this one out.
  if (gpt_oss()) {
    norm(b + "post_attention_norm.weight", m_.n_embd);
  } else if (!nemotron()) {
    norm(b + (is("falcon-h1") ? "ffn_norm" : "ffn_norm.weight"), m_.n_embd);
  }
  write_network(b, network(i));
}

}  // namespace

bool is_family(std::string_view architecture) {
  return std::ranges::find(kFamilies, architecture) != std::end(kFamilies);
}

TinyModel family_for_peers(const std::string& architecture, uint64_t seed) {
  TinyModel m;
  m.architecture = architecture;
  m.seed = seed;
  m.n_layers = 6;
  m.attention_interval = 3;
  // llama.cpp asks for n_embd = heads * head_dim, and twice that in recurrent layers.
  m.head_dim = 16;
  m.n_v_heads = 8;
  m.n_vocab = 96;
  m.tied_head = seed % 2 == 0 && architecture != "qwen2moe";  // which it wants untied
  m.qkv_bias = architecture == "llama" && seed % 3 == 0;
  if (seed % 5 < 2) m.rope_scale = 4;
  m.yarn = seed % 5 == 1;
  m.rope_freqs = architecture == "llama" && m.rope_scale == 1 && seed % 4 < 2;
  m.all_biases = architecture == "llama" && seed % 7 < 3;
  if (architecture == "gpt-oss") m.tied_head = false;
  return m;
}

Result<gguf::Writer> make_family_model(const TinyModel& model) { return FamilyMaker(model).make(); }

}  // namespace chimere::test
