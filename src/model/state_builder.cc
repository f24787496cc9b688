#include "model/state_builder.h"

#include <limits>
#include <string>
#include <utility>

namespace chimere::model {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t round_up_to_64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Result<StateBuilder> StateBuilder::create(kernels::Ops& ops, const ModelOptions& options) {
  if (options.max_tokens < 1 || options.max_tokens > std::numeric_limits<int32_t>::max()) {
    return invalid_argument("max_tokens is " + std::to_string(options.max_tokens) +
                            "; it must be from 1 to 2147483647");
  }
  if (options.max_states < 1) return invalid_argument("max_states must be at least 1");
  if (options.max_pending_rows < 0) {
    return invalid_argument("max_pending_rows must not be negative");
  }
  for (const DType type : {options.cache_k, options.cache_v}) {
    if (!kernels::is_kv_type(type)) {
      return unsupported("a KV cache of type " + std::string(dtype_name(type)) +
                         " is not implemented; use f32, f16, bf16, q8_0 or q4_0");
    }
  }
  return StateBuilder(ops, options);
}

Status StateBuilder::add_kv(int layer, const kernels::AttentionShape& shape,
                            kernels::KvView& view) {
  for (const DType type : {options_.cache_k, options_.cache_v}) {
    if (shape.head_dim % dtype_info(type).block_elements != 0) {
      return unsupported("heads of " + std::to_string(shape.head_dim) +
                         " elements do not fit a KV cache of type " +
                         std::string(dtype_name(type)) + ", whose blocks have 32; use f16");
    }
  }
  components_.push_back({.kind = state::ComponentSpec::Kind::kPagedKv,
                         .layer = layer,
                         .k_type = options_.cache_k,
                         .v_type = options_.cache_v,
                         .bytes = ops_.kv_page_bytes(shape, options_.cache_k, options_.cache_v),
                         .layout_version = ops_.kv_layout(),
                         .window = shape.window});
  attach_.emplace_back([options = &options_, &view](state::StateStore& store, size_t component) {
    view = {store.component_base(component), store.component_stride(component), options->cache_k,
            options->cache_v, store.page_group(component)};
  });
  return {};
}

void StateBuilder::add_convolution(int layer, int64_t floats, int64_t row_floats,
                                   kernels::RecurrentView& view) {
  add_slots(state::ComponentSpec::Kind::kConvolution, layer, floats, row_floats, view);
}

void StateBuilder::add_recurrent(int layer, int64_t floats, int64_t row_floats,
                                 kernels::RecurrentView& view) {
  add_slots(state::ComponentSpec::Kind::kRecurrent, layer, floats, row_floats, view);
}

void StateBuilder::add_slots(state::ComponentSpec::Kind kind, int layer, int64_t floats,
                             int64_t row_floats, kernels::RecurrentView& view) {
  components_.push_back({.kind = kind,
                         .layer = layer,
                         .bytes = round_up_to_64(floats * kFloatBytes),
                         .pending_bytes = round_up_to_64(row_floats * kFloatBytes)});
  attach_.emplace_back([&view](state::StateStore& store, size_t component) {
    view = {reinterpret_cast<float*>(store.component_base(component)),
            store.slot_stride() / kFloatBytes,
            reinterpret_cast<float*>(store.pending_base(component)),
            store.row_stride() / kFloatBytes};
  });
}

Result<std::unique_ptr<state::StateStore>> StateBuilder::build(uint64_t model_key) {
  state::StateSpec spec;
  spec.components = components_;
  spec.page_tokens = kernels::kKvPageTokens;
  spec.max_pages = (options_.max_tokens + spec.page_tokens - 1) / spec.page_tokens;
  spec.max_slots = options_.max_states;
  spec.max_window_states = options_.max_window_states;
  spec.max_pending_rows = options_.max_pending_rows;
  spec.max_bytes = options_.max_state_bytes;
  spec.model_key = model_key;
  CHIMERE_TRY(auto store, state::StateStore::create(std::move(spec), ops_.memory()));
  for (size_t i = 0; i < attach_.size(); ++i) attach_[i](*store, i);
  return store;
}

}  // namespace chimere::model
