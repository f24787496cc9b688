#include "model/hybrid_states.h"

#include <limits>
#include <string>
#include <utility>

namespace chimere::model {
namespace {

using state::ComponentSpec;

constexpr int64_t kFloatBytes = sizeof(float);

int64_t round_up_to_64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

Status check(const ModelOptions& options, const Hparams& h) {
  if (options.max_tokens < 1 || options.max_tokens > std::numeric_limits<int32_t>::max()) {
    return invalid_argument("max_tokens is " + std::to_string(options.max_tokens) +
                            "; it must be from 1 to 2147483647");
  }
  if (options.max_states < 1) return invalid_argument("max_states must be at least 1");
  if (options.max_pending_rows < 0) {
    return invalid_argument("max_pending_rows must not be negative");
  }
  if (options.max_step_rows < 1 || options.max_step_rows > (1 << 20)) {
    return invalid_argument("max_step_rows must be from 1 to 1048576");
  }
  for (const DType type : {options.cache_k, options.cache_v}) {
    if (!kernels::is_kv_type(type)) {
      return unsupported("a KV cache of type " + std::string(dtype_name(type)) +
                         " is not implemented; use f32, f16, bf16, q8_0 or q4_0");
    }
    if (h.attention.head_dim % dtype_info(type).block_elements != 0) {
      return unsupported("heads of " + std::to_string(h.attention.head_dim) +
                         " elements do not fit a KV cache of type " +
                         std::string(dtype_name(type)) + ", whose blocks have 32; use f16");
    }
  }
  return {};
}

/// A recurrent layer has a convolution component, then a scan component; an attention layer has one
/// KV component. The MTP head comes last, with its KV and its last hidden state.
std::vector<ComponentSpec> components(const Hparams& h, kernels::Ops& ops,
                                      const ModelOptions& options) {
  std::vector<ComponentSpec> all;
  const auto add_kv = [&](int layer) {
    all.push_back({.kind = ComponentSpec::Kind::kPagedKv,
                   .layer = layer,
                   .k_type = options.cache_k,
                   .v_type = options.cache_v,
                   .bytes = ops.kv_page_bytes(h.attention, options.cache_k, options.cache_v),
                   .layout_version = ops.kv_layout()});
  };
  for (int layer = 0; layer < h.n_layers; ++layer) {
    if (h.recurrent[static_cast<size_t>(layer)]) {
      all.push_back({.kind = ComponentSpec::Kind::kConvolution,
                     .layer = layer,
                     .bytes = round_up_to_64(h.delta_net.conv_state_floats() * kFloatBytes),
                     .pending_bytes = round_up_to_64(h.delta_net.conv_row_floats() * kFloatBytes)});
      all.push_back({.kind = ComponentSpec::Kind::kRecurrent,
                     .layer = layer,
                     .bytes = round_up_to_64(h.delta_net.scan_state_floats() * kFloatBytes),
                     .pending_bytes = round_up_to_64(h.delta_net.scan_row_floats() * kFloatBytes)});
    } else {
      add_kv(layer);
    }
  }
  if (runs_mtp(options, h)) {
    add_kv(h.n_layers);
    all.push_back({.kind = ComponentSpec::Kind::kRecurrent,
                   .layer = h.n_layers,
                   .bytes = round_up_to_64(h.n_embd * kFloatBytes),
                   .pending_bytes = round_up_to_64(h.n_embd * kFloatBytes)});
  }
  return all;
}

}  // namespace

Result<HybridStates> make_hybrid_states(const Hparams& h, kernels::Ops& ops,
                                        const ModelOptions& options, uint64_t model_key) {
  CHIMERE_CHECK_OK(check(options, h));
  state::StateSpec spec;
  spec.components = components(h, ops, options);
  spec.page_tokens = kernels::kKvPageTokens;
  spec.max_pages = (options.max_tokens + spec.page_tokens - 1) / spec.page_tokens;
  spec.max_slots = options.max_states;
  spec.max_pending_rows = options.max_pending_rows;
  spec.max_bytes = options.max_state_bytes;
  spec.model_key = model_key;

  HybridStates states;
  CHIMERE_TRY(states.store, state::StateStore::create(std::move(spec), ops.memory()));
  state::StateStore& store = *states.store;
  auto recurrent = [&store](size_t component) {
    return kernels::RecurrentView{reinterpret_cast<float*>(store.component_base(component)),
                                  store.slot_stride() / kFloatBytes,
                                  reinterpret_cast<float*>(store.pending_base(component)),
                                  store.row_stride() / kFloatBytes};
  };
  auto paged = [&](size_t c) {
    return kernels::KvView{store.component_base(c), store.page_stride(), options.cache_k,
                           options.cache_v};
  };
  size_t component = 0;
  for (const bool is_recurrent : h.recurrent) {
    LayerStates layer;
    if (is_recurrent) {
      layer.conv = recurrent(component++);
      layer.scan = recurrent(component++);
    } else {
      layer.kv = paged(component++);
    }
    states.layers.push_back(layer);
  }
  if (runs_mtp(options, h)) {
    states.mtp_kv = paged(component++);
    states.last_hidden = recurrent(component);
  }
  return states;
}

}  // namespace chimere::model
