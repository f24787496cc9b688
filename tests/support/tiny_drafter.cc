#include "support/tiny_drafter.h"

#include <string>

#include "support/random_tensors.h"

namespace chimere::test {
namespace {

void write_keys(gguf::Writer& writer, const TinyDrafter& d, int n_embd) {
  const auto set = [&](const std::string& key, int value) {
    writer.set_u32("dflash." + key, static_cast<uint32_t>(value));
  };
  writer.set_string("general.architecture", "dflash");
  set("block_count", d.n_layers);
  set("context_length", 4096);
  set("embedding_length", n_embd);
  set("feed_forward_length", d.n_ff);
  set("attention.head_count", d.n_heads);
  set("attention.head_count_kv", d.n_kv_heads);
  set("attention.key_length", d.head_dim);
  set("attention.value_length", d.head_dim);
  writer.set_f32("dflash.attention.layer_norm_rms_epsilon", 1e-6F);
  writer.set_f32("dflash.rope.freq_base", 1e5F);
  set("block_size", d.block_size);
  std::vector<int32_t> inputs;
  for (const int tap : d.taps) inputs.push_back(tap + 1);
  writer.set_i32s("dflash.target_layers", inputs);
  writer.set_u32("tokenizer.ggml.mask_token_id", static_cast<uint32_t>(d.mask_token));
}

}  // namespace

Result<gguf::Writer> make_tiny_drafter(const TinyDrafter& d, const TinyModel& target) {
  RandomTensors file(d.seed);
  const int n = target.n_embd;
  write_keys(file.writer(), d, n);
  if (d.window > 0) {
    file.writer().set_u32("dflash.attention.sliding_window", static_cast<uint32_t>(d.window));
  }
  file.weight("fc.weight", {static_cast<int64_t>(d.taps.size()) * n, n}, d.weights);
  file.norm("enc.output_norm.weight", n);
  file.norm("output_norm.weight", n);
  for (int i = 0; i < d.n_layers; ++i) {
    const std::string b = "blk." + std::to_string(i) + ".";
    file.norm(b + "attn_norm.weight", n);
    file.weight(b + "attn_q.weight", {n, d.n_heads * d.head_dim}, d.weights);
    file.weight(b + "attn_k.weight", {n, d.n_kv_heads * d.head_dim}, d.weights);
    file.weight(b + "attn_v.weight", {n, d.n_kv_heads * d.head_dim}, d.weights);
    file.weight(b + "attn_output.weight", {d.n_heads * d.head_dim, n}, d.weights);
    file.norm(b + "attn_q_norm.weight", d.head_dim);
    file.norm(b + "attn_k_norm.weight", d.head_dim);
    file.norm(b + "ffn_norm.weight", n);
    file.weight(b + "ffn_gate.weight", {n, d.n_ff}, d.weights);
    file.weight(b + "ffn_up.weight", {n, d.n_ff}, d.weights);
    file.weight(b + "ffn_down.weight", {d.n_ff, n}, d.weights);
  }
  return file.finish();
}

}  // namespace chimere::test
