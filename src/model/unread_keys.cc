#include "model/unread_keys.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "model/metadata_value.h"

namespace chimere::model {
namespace {

/// Keys::name() would note that the architecture reads it.
std::string whole_name(const Keys& keys, std::string_view key) {
  return keys.architecture() + "." + std::string(key);
}

using NumberTest = std::function<bool(double)>;

/// Whether a number, a boolean (0 or 1), or all elements of an array of them pass; no text does.
bool all_pass(const gguf::Value& value, const NumberTest& passes) {
  if (const auto* flag = std::get_if<bool>(&value)) return passes(*flag ? 1 : 0);
  const auto* array = std::get_if<gguf::Array>(&value);
  if (array == nullptr) {
    const auto single = number(value);
    return single && passes(*single);
  }
  return std::visit(
      [&](const auto& items) {
        using T = typename std::decay_t<decltype(items)>::value_type;
        if constexpr (std::is_same_v<T, std::string>) {
          return false;
        } else {
          return std::ranges::all_of(items, [&](T x) { return passes(static_cast<double>(x)); });
        }
      },
      array->items);
}

bool is_harmless(const gguf::Value& /*value*/, const Keys& /*keys*/) { return true; }

bool is_absent(const gguf::Value& value, const Keys& /*keys*/) {
  return all_pass(value, [](double x) { return x == 0; });
}

/// A factor, or the distance of layers that differ from the others.
bool is_one(const gguf::Value& value, const Keys& /*keys*/) {
  return all_pass(value, [](double x) { return x == 0 || x == 1; });
}

bool is_true(const gguf::Value& value, const Keys& /*keys*/) {
  return all_pass(value, [](double x) { return x == 1; });
}

bool is_width(const gguf::Value& value, const Keys& keys) {
  const auto width = keys.file().get_int(whole_name(keys, "embedding_length"));
  return all_pass(
      value, [&](double x) { return x == 0 || (width.ok() && x == static_cast<double>(*width)); });
}

/// A window that no token leaves.
bool is_whole_context(const gguf::Value& value, const Keys& keys) {
  const auto own = keys.file().get_int(whole_name(keys, "context_length"));
  const int64_t context = std::max(own.ok() ? *own : 0, keys.rope().context);
  return all_pass(value, [&](double x) { return x == 0 || x >= static_cast<double>(context); });
}

/// Keys that say more about the window.
bool has_no_window(const gguf::Value& /*value*/, const Keys& keys) {
  const gguf::Value* window = keys.file().find(whole_name(keys, "attention.sliding_window"));
  return window == nullptr || is_whole_context(*window, keys);
}

struct UnreadKey {
  std::string_view name;  ///< behind "<architecture>."; one that ends with '.' names all below it
  bool (*accepted)(const gguf::Value& value, const Keys& keys);
};

/// The first that names a key counts. A key that is not listed is refused, as its meaning
/// is unknown. Names: https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/constants.py,
/// and those of Ollama's converters (https://github.com/ollama/ollama/tree/main/convert).
constexpr UnreadKey kUnreadKeys[] = {
    {"rope.", is_harmless},  // check_rope_keys() has judged each
    // Names and notes. The vocabulary's size is that of the table of embeddings.
    {"vocab_size", is_harmless},
    {"tensor_data_layout", is_harmless},
    {"classifier.output_labels", is_harmless},
    // Parts that are left out with their tensors, and tokens that stand for their inputs.
    {"vision.", is_harmless},
    {"audio.", is_harmless},
    {"mm.", is_harmless},
    {"image_token_id", is_harmless},
    {"video_token_id", is_harmless},
    {"audio_token_id", is_harmless},
    {"vision_start_token_id", is_harmless},
    {"vision_end_token_id", is_harmless},
    {"n_deepstack_layers", is_harmless},  // image vectors are added to these layers' inputs
    {"deepstack_mapping", is_harmless},
    {"mrope_sections", is_harmless},  // see "rope.dimension_sections"
    // Sizes of layers that the model does not have: their tensors would be refused.
    {"feed_forward_length", is_harmless},
    {"attention.head_count", is_harmless},
    {"attention.head_count_kv", is_harmless},
    {"attention.key_length", is_harmless},
    {"attention.value_length", is_harmless},
    {"attention.scale", is_harmless},
    {"attention.layer_norm_epsilon", is_harmless},
    {"attention.layer_norm_rms_epsilon", is_harmless},
    {"shortconv.l_cache", is_harmless},
    {"ssm.conv_kernel", is_harmless},
    {"ssm.state_size", is_harmless},
    {"ssm.group_count", is_harmless},
    {"ssm.inner_size", is_harmless},
    {"ssm.time_step_rank", is_harmless},
    {"ssm.", is_absent},
    // Without experts the others say nothing; with experts, what matters of them is read.
    {"expert_count", is_absent},
    {"expert_used_count", is_harmless},
    {"expert_shared_count", is_harmless},
    {"expert_feed_forward_length", is_harmless},
    {"expert_shared_feed_forward_length", is_harmless},
    {"expert_group_count", is_harmless},
    {"expert_group_used_count", is_harmless},
    {"expert_gating_func", is_harmless},
    {"expert_weights_norm", is_harmless},
    {"expert_weights_scale", is_harmless},
    {"norm_top_k_prob", is_harmless},
    {"expert_group_scale", is_one},
    {"experts_per_group", is_absent},
    {"expert_chunk_feed_forward_length", is_absent},
    {"moe_every_n_layers", is_one},
    {"interleave_moe_layer_step", is_one},
    {"leading_dense_block_count", is_absent},
    {"moe_latent_size", is_absent},
    {"router_logit_softcapping", is_absent},
    {"swiglu_clamp_exp", is_absent},
    {"swiglu_clamp_shexp", is_absent},
    // What changes every answer, unless the value says that it does nothing.
    {"attention.causal", is_true},
    {"attention.sliding_window", is_whole_context},
    {"attention.sliding_window_pattern", has_no_window},
    {"attention.key_length_swa", has_no_window},
    {"attention.value_length_swa", has_no_window},
    {"attention.clamp_kqv", is_absent},
    {"attention.max_alibi_bias", is_absent},
    {"attention.output_scale", is_one},
    {"attention.temperature_length", is_absent},
    {"attention.temperature_scale", is_absent},
    {"attention.group_norm_epsilon", is_absent},
    {"attention.group_norm_groups", is_absent},
    {"attention.q_lora_rank", is_absent},
    {"attention.kv_lora_rank", is_absent},
    {"attention.key_length_mla", is_absent},
    {"attention.value_length_mla", is_absent},
    {"attention.relative_buckets_count", is_absent},
    {"attention.shared_kv_layers", is_absent},
    {"attention.recurrent_layers", is_absent},
    {"attention.indexer.", is_absent},
    {"attn_logit_softcapping", is_absent},
    {"final_logit_softcapping", is_absent},
    {"logit_scale", is_one},
    {"residual_scale", is_one},
    {"embedding_scale", is_one},
    {"embedding_length_out", is_width},
    {"embedding_length_per_layer_input", is_absent},
    {"activation_sparsity_scale", is_absent},
    {"full_attention_interval", is_one},
    {"nextn_predict_layers", is_absent},
    {"rescale_every_n_layers", is_absent},
    {"swin_norm", is_absent},
    {"use_parallel_residual", is_absent},
};

bool covers(const UnreadKey& row, std::string_view key) {
  return row.name.ends_with('.') ? key.starts_with(row.name) : key == row.name;
}

}  // namespace

Status check_unread_keys(const Keys& keys) {
  const std::string prefix = whole_name(keys, "");
  for (const std::string& whole : keys.file().keys()) {
    if (!whole.starts_with(prefix)) continue;
    const std::string_view key = std::string_view(whole).substr(prefix.size());
    if (keys.was_read(key)) continue;
    const gguf::Value& value = *keys.file().find(whole);
    const auto* const row =
        std::ranges::find_if(kUnreadKeys, [&](const UnreadKey& r) { return covers(r, key); });
    if (row != std::end(kUnreadKeys) && row->accepted(value, keys)) continue;
    return unsupported(whole + " = " + shown(value) + " is not implemented for models of " +
                       keys.architecture() +
                       "; the model's answers would be wrong without it, so use a file that was "
                       "converted without it");
  }
  return {};
}

}  // namespace chimere::model
