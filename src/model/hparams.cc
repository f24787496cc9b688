#include "model/hparams.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "model/rope_keys.h"

namespace chimere::model {
namespace {

// Far above any model, and small enough that a product of three cannot overflow.
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxCount = 1 << 16;
constexpr int kMaxHeads = 1 << 12;
// Kernel limits: heads are whole vectors of 16, and one fits on a thread's stack.
constexpr int kMaxHeadDim = 256;
constexpr int kHeadDimUnit = 16;
constexpr int kMaxConvKernel = 8;

/// Keys under one prefix, with ranges.
class Keys {
 public:
  Keys(const gguf::Reader& file, const std::string& architecture)
      : file_(file), prefix_(architecture + ".") {}

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return file_.find(name(key)) != nullptr; }

  Result<int> integer(std::string_view key, int min, int max) const {
    CHIMERE_TRY(const int64_t v, file_.get_int(name(key)));
    if (v < min || v > max) {
      return invalid_data(name(key) + " is " + std::to_string(v) + "; it must be from " +
                          std::to_string(min) + " to " + std::to_string(max));
    }
    return static_cast<int>(v);
  }

  Result<int> integer_or(std::string_view key, int otherwise, int min, int max) const {
    if (!has(key)) return otherwise;
    return integer(key, min, max);
  }

  Result<int> head_dim(std::string_view key) const {
    CHIMERE_TRY(const int v, integer(key, 1, kMaxWidth));
    if (v > kMaxHeadDim || v % kHeadDimUnit != 0) {
      return unsupported(name(key) + " is " + std::to_string(v) + "; heads have a multiple of " +
                         std::to_string(kHeadDimUnit) + " elements, at most " +
                         std::to_string(kMaxHeadDim));
    }
    return v;
  }

  Result<float> positive(std::string_view key) const {
    CHIMERE_TRY(const double v, file_.get_float(name(key)));
    const auto f = static_cast<float>(v);
    if (!std::isfinite(f) || f <= 0) {
      return invalid_data(name(key) + " is " + std::to_string(v) + "; it must be positive");
    }
    return f;
  }

 private:
  const gguf::Reader& file_;
  std::string prefix_;
};

Status read_layers(const gguf::Reader& file, const Keys& keys, Hparams& h) {
  CHIMERE_TRY(const int n_blocks, keys.integer("block_count", 1, kMaxCount));
  CHIMERE_TRY(h.n_mtp_layers, keys.integer_or("nextn_predict_layers", 0, 0, n_blocks - 1));
  h.n_layers = n_blocks - h.n_mtp_layers;
  h.recurrent.resize(static_cast<size_t>(h.n_layers));

  const std::string key = keys.name("attention.recurrent_layers");
  if (const gguf::Value* value = file.find(key); value != nullptr) {
    const auto* array = std::get_if<gguf::Array>(value);
    const auto* flags = array != nullptr ? std::get_if<std::vector<bool>>(&array->items) : nullptr;
    if (flags == nullptr || flags->size() != static_cast<size_t>(n_blocks)) {
      return invalid_data(key + " must be an array of " + std::to_string(n_blocks) + " booleans");
    }
    for (size_t i = 0; i < h.recurrent.size(); ++i) h.recurrent[i] = (*flags)[i];
    return {};
  }
  CHIMERE_TRY(const int interval, keys.integer_or("full_attention_interval", 4, 1, kMaxCount));
  for (int i = 0; i < h.n_layers; ++i) {
    h.recurrent[static_cast<size_t>(i)] = (i + 1) % interval != 0;
  }
  return {};
}

Status read_attention(const gguf::Reader& file, const Keys& keys, Hparams& h) {
  kernels::AttentionShape& a = h.attention;
  CHIMERE_TRY(a.n_heads, keys.integer("attention.head_count", 1, kMaxHeads));
  CHIMERE_TRY(a.n_kv_heads, keys.integer("attention.head_count_kv", 1, a.n_heads));
  CHIMERE_TRY(a.head_dim, keys.head_dim("attention.key_length"));
  CHIMERE_TRY(const int value_dim, keys.integer("attention.value_length", 1, kMaxWidth));
  if (a.gated) {
    CHIMERE_TRY(a.rope_dims, keys.integer("rope.dimension_count", 2, a.head_dim));
  } else {  // whole heads are rotated unless the file says otherwise
    CHIMERE_TRY(a.rope_dims, keys.integer_or("rope.dimension_count", a.head_dim, 2, a.head_dim));
  }
  CHIMERE_TRY(a.rope_base, keys.positive("rope.freq_base"));
  a.scale = 1.0F / std::sqrt(static_cast<float>(a.head_dim));
  if (a.n_heads % a.n_kv_heads != 0) {
    return invalid_data(keys.name("attention.head_count") + " (" + std::to_string(a.n_heads) +
                        ") must be a multiple of " + keys.name("attention.head_count_kv") + " (" +
                        std::to_string(a.n_kv_heads) + ")");
  }
  if (value_dim != a.head_dim) {
    return unsupported("keys of " + std::to_string(a.head_dim) + " and values of " +
                       std::to_string(value_dim) + " elements; they must have the same length");
  }
  if (a.rope_dims % 2 != 0) {
    return invalid_data(keys.name("rope.dimension_count") + " must be even");
  }
  return check_rope_keys(file, h.architecture, h.context_length);
}

Status read_delta_net(const Keys& keys, Hparams& h) {
  kernels::GdnShape& g = h.delta_net;
  CHIMERE_TRY(g.conv_kernel, keys.integer("ssm.conv_kernel", 2, kMaxConvKernel));
  CHIMERE_TRY(g.head_dim, keys.head_dim("ssm.state_size"));
  CHIMERE_TRY(g.n_k_heads, keys.integer("ssm.group_count", 1, kMaxHeads));
  CHIMERE_TRY(g.n_v_heads, keys.integer("ssm.time_step_rank", 1, kMaxHeads));
  CHIMERE_TRY(const int inner, keys.integer("ssm.inner_size", 1, kMaxHeads * kMaxHeadDim));
  if (inner != g.value_dim()) {
    return invalid_data(keys.name("ssm.inner_size") + " is " + std::to_string(inner) +
                        "; time_step_rank heads of state_size make " +
                        std::to_string(g.value_dim()));
  }
  if (g.n_v_heads % g.n_k_heads != 0) {
    return invalid_data(keys.name("ssm.time_step_rank") + " must be a multiple of " +
                        keys.name("ssm.group_count"));
  }
  return {};
}

Status read_moe(const gguf::Reader& file, const Keys& keys, bool shared, Hparams& h) {
  CHIMERE_TRY(h.moe.n_experts, keys.integer("expert_count", 1, kMaxCount));
  CHIMERE_TRY(h.moe.n_used, keys.integer("expert_used_count", 1, h.moe.n_experts));
  // Files from before these keys existed give the width of a dense network with as many active
  // parameters.
  CHIMERE_TRY(const int dense, keys.integer_or("feed_forward_length", 0, 0, kMaxWidth));
  CHIMERE_TRY(h.moe.n_ff,
              keys.integer_or("expert_feed_forward_length", dense / h.moe.n_used, 1, kMaxWidth));
  if (shared) {
    CHIMERE_TRY(h.moe.n_ff_shared,
                keys.integer_or("expert_shared_feed_forward_length", dense, 1, kMaxWidth));
  }
  if (h.moe.n_ff == 0) {
    return invalid_data("the file lacks " + keys.name("expert_feed_forward_length"));
  }
  if (shared && h.moe.n_ff_shared == 0) {
    return invalid_data("the file lacks " + keys.name("expert_shared_feed_forward_length"));
  }
  if (keys.has("expert_weights_scale")) {
    CHIMERE_TRY(const double scale, file.get_float(keys.name("expert_weights_scale")));
    // Converters write 0 or 1 if the model has no such factor.
    if (scale != 0 && scale != 1) {
      return unsupported(keys.name("expert_weights_scale") + " other than 1 is not implemented");
    }
  }
  return {};
}

/// "pooling_type" of an embedding model says how a text's embedding is computed.
Status read_pooling(const Keys& keys, Hparams& h) {
  // Values of the GGUF format: none, mean, first token, last token, rank.
  constexpr int kNone = 0;
  constexpr int kMean = 1;
  constexpr int kLast = 3;
  CHIMERE_TRY(const int type, keys.integer_or("pooling_type", kNone, 0, kMaxCount));
  if (type == kNone) return {};
  if (type != kMean && type != kLast) {
    return unsupported(keys.name("pooling_type") + " is " + std::to_string(type) +
                       "; embeddings are pooled by the mean (1) or the last token (3)");
  }
  h.pooling = type == kMean ? Pooling::kMean : Pooling::kLast;
  return {};
}

/// The vocabulary's size is that of the embedding table; a tokenizer in the file must agree.
Status read_vocabulary(const gguf::Reader& file, Hparams& h) {
  const gguf::TensorInfo* table = file.find_tensor("token_embd.weight");
  if (table == nullptr) return invalid_data("the tensor token_embd.weight is missing");
  if (table->dims.size() != 2 || table->dims[1] < 1 ||
      table->dims[1] > std::numeric_limits<int32_t>::max()) {
    return invalid_data("the tensor token_embd.weight must have two dimensions, one row a token");
  }
  h.n_vocab = static_cast<int>(table->dims[1]);
  const std::vector<std::string>* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->size() != static_cast<size_t>(h.n_vocab)) {
    return invalid_data("tokenizer.ggml.tokens has " + std::to_string(tokens->size()) +
                        " entries, but token_embd.weight has " + std::to_string(h.n_vocab) +
                        " rows");
  }
  return {};
}

}  // namespace

Result<Hparams> read_hparams(const gguf::Reader& file, const HybridKind& kind) {
  const Keys keys(file, kind.name);
  Hparams h;
  h.architecture = kind.name;
  h.delta_net.tiled_heads = kind.tiled_heads;
  CHIMERE_TRY(h.n_embd, keys.integer("embedding_length", 1, kMaxWidth));
  CHIMERE_TRY(h.context_length,
              keys.integer("context_length", 1, std::numeric_limits<int32_t>::max()));
  CHIMERE_TRY(h.norm_eps, keys.positive("attention.layer_norm_rms_epsilon"));
  if (kind.transformer) {
    CHIMERE_TRY(h.n_layers, keys.integer("block_count", 1, kMaxCount));
    h.recurrent.assign(static_cast<size_t>(h.n_layers), false);
    h.attention.gated = false;
    CHIMERE_CHECK_OK(read_pooling(keys, h));
  } else {
    CHIMERE_CHECK_OK(read_layers(file, keys, h));
    CHIMERE_CHECK_OK(read_delta_net(keys, h));
  }
  CHIMERE_CHECK_OK(read_attention(file, keys, h));
  if (kind.experts) {
    CHIMERE_CHECK_OK(read_moe(file, keys, !kind.transformer, h));
  } else {
    CHIMERE_TRY(h.n_ff, keys.integer("feed_forward_length", 1, kMaxWidth));
  }
  CHIMERE_CHECK_OK(read_vocabulary(file, h));
  return h;
}

}  // namespace chimere::model
