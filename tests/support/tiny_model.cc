#include "support/tiny_model.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "quant/quant.h"

namespace chimere::test {
namespace {

/// A field of a block that scales all of its weights: f16 at `offset`, times `factor` so that
/// minima take away the mean.
struct ScaleField {
  int offset;
  float factor;
};

std::vector<ScaleField> scale_fields(DType type) {
  switch (type) {
    case DType::kQ4_1:
      return {{0, 1}, {2, -7.5F}};
    case DType::kQ5_1:
      return {{0, 1}, {2, -15.5F}};
    case DType::kQ2_K:
      return {{80, 1}, {82, 1.5F}};
    case DType::kQ3_K:
      return {{108, 1}};
    case DType::kQ4_K:
      return {{0, 1}, {2, 7.5F}};
    case DType::kQ5_K:
      return {{0, 1}, {2, 15.5F}};
    case DType::kQ6_K:
      return {{208, 1}};
    case DType::kMXFP4:
    case DType::kIQ1_M:
      return {};  // see set_scale()
    default:
      return {{0, 1}};
  }
}

/// Gives a block of random bits the scale d, as near as the format can.
void set_scale(DType type, float d, uint8_t* block) {
  if (type == DType::kMXFP4) {  // a power of two, of which weights are halves
    block[0] = static_cast<uint8_t>(128 + std::ilogb(d));
    return;
  }
  if (type == DType::kIQ1_M) {  // an f16 in the top four bits of four words
    const uint16_t h = quant::f32_to_f16(d);
    for (int word = 0; word < 4; ++word) {
      uint8_t& top = block[48 + 2 * word + 1];
      top = static_cast<uint8_t>((top & 0x0F) | (((h >> (4 * word)) & 0x0F) << 4));
    }
    return;
  }
  for (const ScaleField& f : scale_fields(type)) {
    const uint16_t h = quant::f32_to_f16(d * f.factor);
    std::memcpy(block + f.offset, &h, 2);
  }
}

/// The standard deviation that random bits have at scale 1.
float unit_deviation(DType type) {
  constexpr int kBlocks = 64;
  std::mt19937_64 rng(1);
  const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  std::vector<uint8_t> data(kBlocks * block_bytes);
  for (uint8_t& b : data) b = static_cast<uint8_t>(rng() >> 56);
  for (size_t at = 0; at < data.size(); at += block_bytes) set_scale(type, 1, data.data() + at);
  std::vector<float> values(static_cast<size_t>(kBlocks) *
                            static_cast<size_t>(dtype_info(type).block_elements));
  quant::decode(type, data.data(), values.data(), static_cast<int64_t>(values.size()));
  double squares = 0;
  for (const float x : values) squares += static_cast<double>(x) * x;
  return static_cast<float>(std::sqrt(squares / static_cast<double>(values.size())));
}

class Maker {
 public:
  explicit Maker(const TinyModel& m)
      : m_(m),
        rng_(m.seed),
        transformer_(m.architecture == "qwen3" || m.architecture == "qwen3moe"),
        experts_(m.architecture != "qwen35" && m.architecture != "qwen3") {}

  Result<gguf::Writer> make() {
    write_keys();
    write_vocabulary();
    weight("token_embd.weight", {m_.n_embd, m_.n_vocab}, m_.embedding);
    norm("output_norm.weight", m_.n_embd);
    if (!m_.tied_head) weight("output.weight", {m_.n_embd, m_.n_vocab}, m_.head);
    for (int i = 0; i < m_.n_layers + m_.n_mtp_layers; ++i) write_block(i);
    if (!status_.ok()) return status_.error();
    return std::move(writer_);
  }

 private:
  void write_keys();
  void write_vocabulary();
  void write_block(int i);
  void write_delta_net(const std::string& b);
  void write_attention(const std::string& b);
  void write_experts(const std::string& b);

  /// Uniform in [0, 1), from the top bits, the same everywhere (std:: distributions are not).
  float uniform() { return static_cast<float>(rng_() >> 40) * 0x1p-24F; }
  /// Near normal: the sum of four uniforms has variance 1/3.
  float normal() { return (uniform() + uniform() + uniform() + uniform() - 2) * std::sqrt(3.0F); }

  void add(const std::string& name, const std::vector<int64_t>& dims, DType type, const void* data,
           size_t bytes) {
    if (!status_.ok()) return;
    status_ = writer_.add_tensor(name, dims, type, data, bytes);
  }

  void vector(const std::string& name, std::vector<float> v) {
    add(name, {static_cast<int64_t>(v.size())}, DType::kF32, v.data(), v.size() * sizeof(float));
  }

  void norm(const std::string& name, int n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = 1 + 0.1F * normal();
    vector(name, std::move(v));
  }

  /// A weight matrix to be written to the file.
  struct Matrix {
    std::vector<int64_t> dims;
    DType type = DType::kF32;
    std::vector<uint8_t> data;
  };

  Matrix draw(const std::vector<int64_t>& dims, DType type) {
    if (dims[0] % dtype_info(type).block_elements != 0) type = DType::kQ8_0;
    if (dims[0] % dtype_info(type).block_elements != 0) type = DType::kF32;
    int64_t n = 1;
    for (const int64_t d : dims) n *= d;
    const float deviation = 1 / std::sqrt(static_cast<float>(dims[0]));
    return {dims, type,
            dtype_info(type).quantised ? random_blocks(type, n, deviation)
                                       : random_floats(type, n, deviation)};
  }

  void add(const std::string& name, const Matrix& m) {
    add(name, m.dims, m.type, m.data.data(), m.data.size());
  }

  void weight(const std::string& name, const std::vector<int64_t>& dims, DType type) {
    add(name, draw(dims, type));
  }

  /// One tensor of several: the first of `n` equal shares of each part, then the second, ...
  void fused(const std::string& name, const std::vector<Matrix>& parts, int n) {
    Matrix all = parts[0];
    all.data.clear();
    all.dims[1] = 0;
    for (const Matrix& part : parts) all.dims[1] += part.dims[1];
    for (int share = 0; share < n; ++share) {
      for (const Matrix& part : parts) {
        const auto bytes = static_cast<std::ptrdiff_t>(part.data.size()) / n;
        const auto begin = part.data.begin() + share * bytes;
        all.data.insert(all.data.end(), begin, begin + bytes);
      }
    }
    add(name, all);
  }

  /// Rows [begin, begin + count) of a matrix.
  static Matrix rows(const Matrix& m, int64_t begin, int64_t count) {
    const int64_t bytes = row_bytes(m.type, m.dims[0]);
    const auto first = m.data.begin() + begin * bytes;
    return {{m.dims[0], count}, m.type, {first, first + count * bytes}};
  }

  std::vector<uint8_t> random_floats(DType type, int64_t n, float deviation) {
    std::vector<uint8_t> data(static_cast<size_t>(row_bytes(type, n)));
    for (int64_t i = 0; i < n; ++i) {
      const float x = normal() * deviation;
      if (type == DType::kF32) {
        std::memcpy(data.data() + 4 * i, &x, 4);
      } else {
        const uint16_t h = type == DType::kF16 ? quant::f32_to_f16(x) : quant::f32_to_bf16(x);
        std::memcpy(data.data() + 2 * i, &h, 2);
      }
    }
    return data;
  }

  std::vector<uint8_t> random_blocks(DType type, int64_t n, float deviation) {
    std::vector<uint8_t> data(static_cast<size_t>(row_bytes(type, n)));
    for (uint8_t& b : data) b = static_cast<uint8_t>(rng_() >> 56);
    const float unit = deviation / unit_deviation(type);
    const auto block = static_cast<size_t>(dtype_info(type).block_bytes);
    for (size_t at = 0; at < data.size(); at += block) {
      set_scale(type, unit * (0.75F + 0.5F * uniform()), data.data() + at);
    }
    return data;
  }

  const TinyModel& m_;
  std::mt19937_64 rng_;
  bool transformer_;
  bool experts_;
  gguf::Writer writer_;
  Status status_;
};

void Maker::write_keys() {
  const std::string a = m_.architecture + ".";
  auto set = [&](const std::string& key, int v) {
    writer_.set_u32(a + key, static_cast<uint32_t>(v));
  };
  writer_.set_string("general.architecture", m_.architecture);
  writer_.set_string("general.name", "tiny");
  set("block_count", m_.n_layers + m_.n_mtp_layers);
  set("context_length", 4096);
  set("embedding_length", m_.n_embd);
  set("attention.head_count", m_.n_heads);
  set("attention.head_count_kv", m_.n_kv_heads);
  set("attention.key_length", m_.head_dim);
  set("attention.value_length", m_.head_dim);
  writer_.set_f32(a + "attention.layer_norm_rms_epsilon", 1e-6F);
  writer_.set_f32(a + "rope.freq_base", 1e7F);
  set("rope.dimension_count", transformer_ ? m_.head_dim : m_.rope_dims);
  if (!transformer_) {
    const int pairs = m_.rope_dims / 2;
    writer_.set_i32s(a + "rope.dimension_sections",
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

/// The character of the byte-level BPE alphabet for each byte, in UTF-8: itself if printable,
/// else the next free character from U+0100 on.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b > 32 && b < 127) || (b > 160 && b != 173);
    const int c = printable ? b : next++;
    if (c < 128) {
      tokens.emplace_back(1, static_cast<char>(c));
    } else {
      tokens.push_back({static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 63))});
    }
  }
  return tokens;
}

void Maker::write_vocabulary() {
  const bool bytes = m_.n_vocab >= 260;
  std::vector<std::string> tokens = bytes ? byte_tokens() : std::vector<std::string>{};
  if (bytes) tokens.emplace_back("th");
  const auto ordinary = static_cast<size_t>(m_.n_vocab - (bytes ? 3 : 0));
  while (tokens.size() < ordinary) tokens.push_back("<t" + std::to_string(tokens.size()) + ">");
  std::vector<int32_t> types(ordinary, 1);
  if (bytes) {
    tokens.insert(tokens.end(), {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
    types.insert(types.end(), 3, 3);
  }
  writer_.set_string("tokenizer.ggml.model", "gpt2");
  writer_.set_string("tokenizer.ggml.pre", "qwen35");
  writer_.set_strings("tokenizer.ggml.tokens", tokens);
  writer_.set_i32s("tokenizer.ggml.token_type", types);
  writer_.set_strings("tokenizer.ggml.merges", {"t h"});
  writer_.set_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(m_.n_vocab - 1));
  writer_.set_u32("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(m_.n_vocab - 3));
  writer_.set_bool("tokenizer.ggml.add_bos_token", false);
  if (bytes) {
    writer_.set_string(
        "tokenizer.chat_template",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  }
}

void Maker::write_delta_net(const std::string& b) {
  const int key_dim = m_.n_k_heads * m_.state_dim;
  const int value_dim = m_.n_v_heads * m_.state_dim;
  const int conv_dim = 2 * key_dim + value_dim;
  const Matrix qkv = draw({m_.n_embd, conv_dim}, m_.mixers);
  const Matrix z = draw({m_.n_embd, value_dim}, m_.mixers);
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
  vector(b + "ssm_dt.bias", std::move(dt));
  vector(b + "ssm_a", std::move(a));
  const Matrix beta = draw({m_.n_embd, m_.n_v_heads}, m_.mixers);
  const Matrix alpha = draw({m_.n_embd, m_.n_v_heads}, m_.mixers);
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
  const Matrix q = draw({m_.n_embd, m_.n_heads * query_dim}, m_.mixers);
  const Matrix k = draw({m_.n_embd, kv_dim}, m_.mixers);
  const Matrix v = draw({m_.n_embd, kv_dim}, m_.mixers);
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
  const Matrix gate = draw({m_.n_embd, m_.n_ff, m_.n_experts}, m_.experts);
  const Matrix up = draw({m_.n_embd, m_.n_ff, m_.n_experts}, m_.experts);
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

Result<gguf::Writer> make_tiny_model(const TinyModel& model) { return Maker(model).make(); }

}  // namespace chimere::test
