// The parts that a model's layers consist of: mixers, which exchange information between positions
// (attention, recurrences), and feed-forward networks. A kind of sub-layer declares its weights,
// state, buffers and forward pass in its own file (layers/); code that holds sub-layers knows none
// of the kinds.
#ifndef CHIMERE_MODEL_SUB_LAYER_H_
#define CHIMERE_MODEL_SUB_LAYER_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/buffer_layout.h"
#include "model/model_options.h"
#include "model/state_builder.h"
#include "model/weight_binder.h"

namespace chimere::model {

/// Scratch memory of the ops on a GPU, for each row.
struct GpuScratch {
  int64_t widest = 0;  ///< elements of the widest row that a matrix is multiplied with
  int64_t bytes = 0;   ///< of ops that need more than that row in rounded form
};

/// Bytes for each row of a convolution on a GPU, whose tiles of 64 rows, full or not, save the
/// inputs before them.
inline int64_t conv_scratch_bytes(const kernels::ConvShape& shape) {
  return shape.state_floats() * 4 * 2 / 64;
}

/// The rows of a step, as a sub-layer sees them.
struct SubLayerRows {
  kernels::Ops& ops;
  /// All rows of the step. After the last mixer, x and h have only the rows whose logits are
  /// requested, and sub-layers must not read it.
  const kernels::BatchView& batch;
  MatrixView x;        ///< [rows, n_embd] residual stream
  kernels::Operand h;  ///< [rows, n_embd] the sub-layer's input: x, normalised
  float scale = 1;     ///< of the output
  /// [rows] if decode rows may skip experts (ModelOptions::expert_top_p); empty: none does.
  std::span<const kernels::RowClass> classes;
  BufferLayout buffers;                      ///< free memory, laid out as SubLayer::lay_out() does
  kernels::ExpertUse* expert_use = nullptr;  ///< counters of experts used, in Ops::memory()
  /// [rows, n_embd] what the first layer read of the residual stream; empty unless
  /// ModelSpec::keeps_embedding.
  ConstMatrixView embedding = {};
};

/// Where weights are put.
struct Placement {
  kernels::Ops& ops;
  /// Layers to come whose routed experts go to host memory (ModelOptions::host_expert_layers).
  int host_expert_layers = 0;
  /// By their memory in the file.
  std::map<const void*, WeightView> shared = {};

  /// Ops::place() of weights that several sub-layers have in common: they are placed once. Errors:
  /// those of Ops::place().
  Result<WeightView> place_once(const WeightView& w) {
    const auto known = shared.find(w.data);
    if (known != shared.end()) return known->second;
    CHIMERE_TRY(const WeightView placed, ops.place(w));
    shared.emplace(w.data, placed);
    return placed;
  }
};

/// A mixer or a feed-forward network, bound to the weights of one layer.
class SubLayer {
 public:
  virtual ~SubLayer() = default;

  /// Puts the weights where ops read them; call once. Errors: those of Ops::place().
  virtual Status place(Placement& to) = 0;
  /// Declares what it stores for each sequence, if anything. Errors: kUnsupported (cache types).
  virtual Status add_state(StateBuilder& /*states*/) { return {}; }
  /// Lays out the buffers that forward() uses for this number of rows.
  virtual void lay_out(BufferLayout& at, int64_t rows) const = 0;
  virtual GpuScratch gpu_scratch() const = 0;
  /// It computes the rows of a sequence one after the other, so it has no non-causal form
  /// (SequenceRows::block).
  virtual bool recurrent() const { return false; }
  /// rows.x += rows.scale * the sub-layer's output for rows.h. Reads and writes the sequences'
  /// states.
  virtual void forward(const SubLayerRows& rows) const = 0;
  /// For the context rows of block drafters, whose mixers are all attention: append() leaves in the
  /// states what forward() would, without an output. It reads products of rows.h, which
  /// project_append() adds to `jobs`. Both take the same rows.buffers, laid out as lay_out_append()
  /// does.
  virtual void lay_out_append(BufferLayout& /*at*/, int64_t /*rows*/) const {}
  virtual void project_append(const SubLayerRows& /*rows*/,
                              std::vector<kernels::LinearJob>& /*jobs*/) const {}
  virtual void append(const SubLayerRows& /*rows*/) const {}
};

/// What a sub-layer is bound to.
struct SubLayerBinding {
  WeightBinder& weights;
  int block = 0;  ///< number of the layer's tensors
  int n_embd = 0;
  float norm_eps = 0;
  const ModelOptions& options;
  float scale = 1;  ///< SubLayerRows::scale

  /// Name of a tensor of the block: "blk.3." + name.
  std::string tensor(const std::string& name) const {
    return "blk." + std::to_string(block) + "." + name;
  }
};

/// Description of a sub-layer: any type S with `std::unique_ptr<SubLayer> bind(const
/// SubLayerBinding&) const`, whose problems the binding's WeightBinder collects.
class SubLayerSpec {
 public:
  SubLayerSpec() = default;  ///< none
  template <typename S>
    requires requires(const S& s, const SubLayerBinding& to) {
      { s.bind(to) } -> std::convertible_to<std::unique_ptr<SubLayer>>;
    }
  SubLayerSpec(S spec)  // NOLINT(google-explicit-constructor): lists of sub-layers read plainly
      : bind_([kept = std::move(spec)](const SubLayerBinding& to) -> std::unique_ptr<SubLayer> {
          return kept.bind(to);
        }) {}

  explicit operator bool() const { return static_cast<bool>(bind_); }
  std::unique_ptr<SubLayer> bind(const SubLayerBinding& to) const { return bind_(to); }

 private:
  std::function<std::unique_ptr<SubLayer>(const SubLayerBinding&)> bind_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_SUB_LAYER_H_
