// Turns the tensors of a file into weight views, checking every name, shape and type.
#ifndef CHIMERE_MODEL_WEIGHT_BINDER_H_
#define CHIMERE_MODEL_WEIGHT_BINDER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model/adapter.h"
#include "tensor/view.h"

namespace chimere::model {

/// Collects problems instead of failing at the first, so that binding code reads as a list of
/// tensors and the user sees everything that is wrong with a file at once. Use nothing that was
/// bound unless finish() succeeds.
class WeightBinder {
 public:
  /// `target`: the file whose embeddings and output matrix are used if `file` has no embeddings.
  explicit WeightBinder(const gguf::Reader& file, const gguf::Reader* target = nullptr)
      : file_(file), target_(target) {}

  /// f32 [n]: norms, biases, per-head parameters.
  const float* vector(const std::string& name, int64_t n);
  /// f32 [n_out, n_in], read element by element.
  const float* f32_matrix(const std::string& name, int64_t n_out, int64_t n_in);
  /// [n_out, n_in] of any float or quantised type, which adapters may change.
  WeightView matrix(const std::string& name, int64_t n_out, int64_t n_in);
  /// Like matrix(), but a token reads one row of it.
  WeightView table(const std::string& name, int64_t n_rows, int64_t n_in);
  /// [n_experts, n_out, n_in], or without such a tensor one for each expert ("ffn_up.3.weight" in
  /// place of "ffn_up_exps.weight"); a token reads n_used of the experts.
  std::vector<WeightView> experts(const std::string& name, int n_experts, int n_used, int64_t n_out,
                                  int64_t n_in);
  /// Selected rows of a fused matrix [n_all, n_in], in the given order: a copy in memory, for files
  /// that interleave what ops read separately. See take_copies().
  WeightView gathered(const std::string& name, int64_t n_all, int64_t n_in,
                      std::span<const int64_t> rows);
  /// Adds a problem of values, which finish() reports.
  void add_problem(std::string what) { problems_.push_back(std::move(what)); }
  bool has(const std::string& name) const { return lookup(name) != nullptr; }
  /// Rows of a tensor that the file has, 1 for a vector; 0 without the tensor.
  int64_t rows_of(const std::string& name) const;

  /// A matrix that no adapter may change.
  WeightView fixed_matrix(const std::string& name, int64_t n_out, int64_t n_in);
  /// Ops::moe_ffn() multiplies with this matrix.
  void mark_in_experts(const WeightView& w);
  /// What adapters may change; WeightView::target is an index into it.
  std::vector<AdapterTarget> take_targets() { return std::move(targets_); }

  /// Bytes that one token reads of everything bound so far.
  int64_t active_bytes() const { return active_bytes_; }

  /// The memory of gathered() weights; it must outlive them.
  std::vector<std::unique_ptr<uint8_t[]>> take_copies() { return std::move(copies_); }

  /// Declares an option of ModelOptions that changes the results of what is bound; states computed
  /// with another value are those of another model. The same option may be declared many times.
  void depend_on(const std::string& option, float value) { options_[option] = value; }
  const std::map<std::string, float>& options() const { return options_; }

  /// Blocks from this number on may hold MTP heads that are not run.
  void leave_out_heads_from(int block) { first_left_out_ = block; }

  /// Errors: kInvalidData (names what is missing or misshapen), kUnsupported (a tensor that no code
  /// bound: the file needs arithmetic that is not implemented here). Tensors of other parts than
  /// the text model (vision, audio, projectors, MTP heads) are left out.
  Status finish() const;
  /// A sentence about the tensors that finish() leaves out; empty: none.
  std::string left_out() const;

 private:
  /// By its own name, by that of another converter, or in the file of the target.
  const gguf::TensorInfo* lookup(const std::string& name) const;
  /// The part that an unbound tensor belongs to, if it may be left out, such as "v"; else empty.
  std::string part_of(const std::string& tensor) const;
  const gguf::TensorInfo* find(const std::string& name, const std::vector<int64_t>& dims);
  WeightView view(const std::string& name, const std::vector<int64_t>& dims);
  const float* f32(const std::string& name, const std::vector<int64_t>& dims);
  std::vector<WeightView> separate_experts(const std::string& prefix, int n_experts, int n_used,
                                           int64_t n_out, int64_t n_in);

  /// Makes `w`, which holds `rows` of a tensor (empty: all), a target of adapters.
  void add_target(AdapterTarget target, WeightView& w);

  const gguf::Reader& file_;
  const gguf::Reader* target_;
  std::unordered_set<std::string> bound_;
  std::vector<std::string> problems_;
  std::vector<std::unique_ptr<uint8_t[]>> copies_;
  std::map<std::string, float> options_;
  std::vector<AdapterTarget> targets_;
  int64_t active_bytes_ = 0;
  int first_left_out_ = std::numeric_limits<int>::max();
};

/// Names a file's hyper-parameters ("<architecture>.*") and its tensors' names, types and shapes,
/// without their values, which state::WeightsHash names: two files with the same key and the same
/// hash give the same states. `options`: those of WeightBinder::depend_on().
uint64_t model_key(const gguf::Reader& file, const std::string& architecture,
                   const std::map<std::string, float>& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_WEIGHT_BINDER_H_
