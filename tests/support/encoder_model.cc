#include "support/encoder_model.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "support/random_tensors.h"

namespace chimere::test {
namespace {

class EncoderMaker : private RandomTensors {
 public:
  explicit EncoderMaker(const EncoderModel& m) : RandomTensors(m.seed), m_(m) {}

  Result<gguf::Writer> make() {
    write_keys();
    write_tokens();
    weight("token_embd.weight", {m_.n_embd, kEncoderTokens}, m_.weights);
    layer_norm("token_embd_norm", !modern());
    if (!modern()) weight("token_types.weight", {m_.n_embd, m_.segments}, DType::kF32);
    if (is("bert")) weight("position_embd.weight", {m_.n_embd, m_.context}, DType::kF32);
    if (modern()) layer_norm("output_norm", false);
    for (int i = 0; i < m_.n_layers; ++i) write_block(i);
    if (m_.pooling == 4) write_head();
    return finish();
  }

 private:
  bool is(const char* name) const { return m_.architecture == name; }
  bool modern() const { return is("modern-bert"); }
  void set(const std::string& key, int v) {
    writer().set_u32(m_.architecture + "." + key, static_cast<uint32_t>(v));
  }
  void set(const std::string& key, float v) { writer().set_f32(m_.architecture + "." + key, v); }

  void write_keys() {
    writer().set_string("general.architecture", m_.architecture);
    writer().set_string("general.name", "encoder");
    set("block_count", m_.n_layers);
    set("context_length", m_.context);
    set("embedding_length", m_.n_embd);
    set("feed_forward_length", m_.n_ff);
    set("attention.head_count", m_.n_heads);
    set("attention.layer_norm_epsilon", 1e-5F);
    writer().set_bool(m_.architecture + ".attention.causal", false);
    set("pooling_type", m_.pooling);
    if (is("nomic-bert")) set("rope.freq_base", 1000.0F);
    if (!modern()) return;
    set("rope.freq_base", 160000.0F);
    set("attention.sliding_window", m_.window);
  }

  void write_tokens() {
    // U+2581 begins a word.
    std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    for (const char* word : {"the", "moth", "lamp", "list", "file", "what", "is", "an"}) {
      tokens.push_back("\u2581" + std::string(word));
    }
    for (char c = 'a'; c <= 'z'; ++c) tokens.push_back("\u2581" + std::string(1, c));
    for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
    while (tokens.size() < kEncoderTokens) {
      tokens.push_back("\u2581t" + std::to_string(tokens.size()));
    }
    std::vector<int32_t> types(tokens.size(), 1);
    for (int i = 0; i < 5; ++i) types[static_cast<size_t>(i)] = 3;
    writer().set_string("tokenizer.ggml.model", "bert");
    writer().set_string("tokenizer.ggml.pre", "jina-v2-en");
    writer().set_strings("tokenizer.ggml.tokens", tokens);
    writer().set_i32s("tokenizer.ggml.token_type", types);
    writer().set_u32("tokenizer.ggml.token_type_count", static_cast<uint32_t>(m_.segments));
    writer().set_u32("tokenizer.ggml.padding_token_id", 0);
    writer().set_u32("tokenizer.ggml.unknown_token_id", 1);
    writer().set_u32("tokenizer.ggml.cls_token_id", 2);
    writer().set_u32("tokenizer.ggml.bos_token_id", 2);
    writer().set_u32("tokenizer.ggml.eos_token_id", 3);
    writer().set_u32("tokenizer.ggml.seperator_token_id", 3);
    writer().set_u32("tokenizer.ggml.mask_token_id", 4);
    if (!m_.pair_template.empty()) {
      writer().set_string("tokenizer.chat_template.rerank", m_.pair_template);
    }
  }

  void layer_norm(const std::string& name, bool biased) {
    norm(name + ".weight", m_.n_embd);
    if (biased) bias(name + ".bias", m_.n_embd, 0.1F);
  }

  void linear(const std::string& name, int n_in, int n_out, bool biased) {
    weight(name + ".weight", {n_in, n_out}, m_.weights);
    if (biased) bias(name + ".bias", n_out, 0.1F);
  }

  void write_block(int i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    const bool biased = is("bert") || is("jina-bert-v2");
    if (modern() && i > 0) layer_norm(b + "attn_norm", false);
    if (modern() || is("nomic-bert") || m_.fused_qkv) {
      linear(b + "attn_qkv", m_.n_embd, 3 * m_.n_embd, biased);
    } else {
      for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
        linear(b + name, m_.n_embd, m_.n_embd, biased);
      }
    }
    if (m_.qk_norms) {
      layer_norm(b + "attn_q_norm", true);
      layer_norm(b + "attn_k_norm", true);
    }
    linear(b + "attn_output", m_.n_embd, m_.n_embd, biased);
    if (modern()) {
      layer_norm(b + "ffn_norm", false);
      linear(b + "ffn_up", m_.n_embd, 2 * m_.n_ff, false);
    } else {
      layer_norm(b + "attn_output_norm", true);
      layer_norm(b + "layer_output_norm", true);
      const bool gated = !is("bert") && !m_.fused_gate;
      linear(b + "ffn_up", m_.n_embd, m_.fused_gate ? 2 * m_.n_ff : m_.n_ff, is("bert"));
      if (gated) linear(b + "ffn_gate", m_.n_embd, m_.n_ff, false);
    }
    linear(b + "ffn_down", m_.n_ff, m_.n_embd, biased);
  }

  void write_head() {
    linear("cls", m_.n_embd, m_.n_embd, !modern());
    if (modern()) norm("cls.norm.weight", m_.n_embd);
    linear("cls.output", m_.n_embd, 1, true);
  }

  const EncoderModel& m_;
};

}  // namespace

bool is_encoder(std::string_view architecture) {
  const std::string_view name = architecture.substr(0, architecture.find("-rank"));
  return std::ranges::find(kEncoders, name) != std::end(kEncoders);
}

EncoderModel encoder_for_peers(const std::string& architecture, uint64_t seed) {
  EncoderModel m;
  const size_t rank = architecture.find("-rank");
  m.architecture = architecture.substr(0, rank);
  m.seed = seed;
  m.n_layers = 6;
  m.pooling = rank != std::string::npos ? 4 : seed % 2 == 0 ? 1 : 2;
  // llama.cpp takes all tokens as of the first segment.
  if (rank != std::string::npos) m.segments = 1;
  // It has separators of its own if the file does not say.
  if (rank != std::string::npos) m.pair_template = "{query}[SEP]{document}[SEP]";
  return m;
}

Result<gguf::Writer> make_encoder_model(const EncoderModel& model) {
  return EncoderMaker(model).make();
}

}  // namespace chimere::test
