// What a model stores per sequence, and the limits of the pools.
#ifndef CHIMERE_STATE_SPEC_H_
#define CHIMERE_STATE_SPEC_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::state {

/// One kind of state of one layer.
struct ComponentSpec {
  enum class Kind : uint32_t {
    kPagedKv = 0,      ///< keys and values of `page_tokens` positions; one piece per page
    kRecurrent = 1,    ///< fixed size; one piece per slot
    kConvolution = 2,  ///< last inputs of a convolution; one piece per slot
  };
  Kind kind = Kind::kPagedKv;
  int layer = 0;
  DType k_type = DType::kF32;  ///< kPagedKv: type of the keys; else of the state
  DType v_type = DType::kF32;  ///< kPagedKv only
  int64_t bytes = 0;           ///< size of one piece; a multiple of 64
  /// What a revocable row keeps until it is folded into the piece; a multiple of 64, 0 for
  /// kPagedKv. Its layout is that of docs/state-blob.md on every back end.
  int64_t pending_bytes = 0;
  uint32_t layout_version = 1;  ///< incremented when the meaning of the bytes changes
  /// kPagedKv: rows attend to the last `window` positions, and pages before them are returned; 0:
  /// to all positions.
  int window = 0;

  bool paged() const { return kind == Kind::kPagedKv; }
};

struct StateSpec {
  std::vector<ComponentSpec> components;
  int page_tokens = 64;
  int64_t max_pages = 0;  ///< over all sequences and checkpoints together
  int64_t max_slots = 0;  ///< recurrent slots over all sequences and checkpoints
  /// States with pages of layers with a window at the same time, each with as many as
  /// StatePools::bytes_per_slot() counts; 0: as `max_pages` and `max_slots` allow.
  int64_t max_window_states = 0;
  int64_t max_pending_rows = 0;  ///< row blocks over all sequences and checkpoints
  /// Most memory of pages, slots and row blocks together, whatever their numbers allow; 0: no other
  /// limit.
  int64_t max_bytes = 0;
  /// Names hyper-parameters and weights' shapes; a blob of another model is refused. Which values
  /// the weights have is named by WeightsHash, where states leave the process.
  uint64_t model_key = 0;
};

/// What identifies a component in a stored state.
struct ComponentRecord {
  uint32_t kind = 0;
  uint32_t layer = 0;
  uint32_t k_type = 0;
  uint32_t v_type = 0;
  uint32_t layout = 0;
  uint32_t window = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(ComponentRecord) == 32);

/// Pages that no row from `position` on sees in a layer with a window.
constexpr int64_t pages_behind(int64_t position, int window, int page_tokens) {
  return position >= window ? (position + 1 - window) / page_tokens : 0;
}
/// Pages that a sequence holds in a layer with a window.
constexpr int64_t pages_in_window(int64_t position, int window, int page_tokens) {
  return (position + page_tokens - 1) / page_tokens - pages_behind(position, window, page_tokens);
}

/// The bytes of one ComponentRecord per component.
std::vector<uint8_t> component_table(const StateSpec& spec);

/// Hash of everything that determines the meaning of a state's bytes: components, their order, page
/// size, model.
uint64_t fingerprint(const StateSpec& spec);

/// Errors: kInvalidArgument, naming the invalid field.
Status validate(const StateSpec& spec);

}  // namespace chimere::state

#endif  // CHIMERE_STATE_SPEC_H_
