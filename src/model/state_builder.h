// The state that a model keeps for each sequence, declared layer by layer.
#ifndef CHIMERE_MODEL_STATE_BUILDER_H_
#define CHIMERE_MODEL_STATE_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/model_options.h"
#include "state/spec.h"
#include "state/state_store.h"

namespace chimere::model {

/// Collects components in the order in which they are declared, then makes the store that holds
/// them and points the declared views into it. Views must stay where they are until then.
class StateBuilder {
 public:
  /// Errors: kInvalidArgument (limits), kUnsupported (cache types).
  static Result<StateBuilder> create(kernels::Ops& ops, const ModelOptions& options);

  /// Keys and values of one layer, in pages. Errors: kUnsupported (the heads do not fit the cache
  /// types).
  Status add_kv(int layer, const kernels::AttentionShape& shape, kernels::KvView& view);
  /// The last inputs of a convolution, of fixed size, zero for a new sequence. `row_floats`: what a
  /// row that may be taken back keeps, to be folded into the state later.
  void add_convolution(int layer, int64_t floats, int64_t row_floats, kernels::RecurrentView& view);
  /// The same for any other state of fixed size.
  void add_recurrent(int layer, int64_t floats, int64_t row_floats, kernels::RecurrentView& view);

  /// Errors: kInvalidArgument, kOutOfMemory (address space).
  Result<std::unique_ptr<state::StateStore>> build(uint64_t model_key);

 private:
  StateBuilder(kernels::Ops& ops, const ModelOptions& options) : ops_(ops), options_(options) {}
  void add_slots(state::ComponentSpec::Kind kind, int layer, int64_t floats, int64_t row_floats,
                 kernels::RecurrentView& view);

  kernels::Ops& ops_;
  const ModelOptions& options_;
  std::vector<state::ComponentSpec> components_;
  /// [components] points the component's view into the store.
  std::vector<std::function<void(state::StateStore& store, size_t component)>> attach_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_STATE_BUILDER_H_
