#include "kernels/cuda/cuda_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/choose_token.h"
#include "kernels/cuda/cuda_graph_cache.h"
#include "kernels/cuda/embed_tokens.h"
#include "kernels/cuda/gdn.h"
#include "kernels/cuda/half_rows.h"
#include "kernels/cuda/host_experts.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/cuda/linear_prefill.h"
#include "kernels/cuda/log_sum_exp.h"
#include "kernels/cuda/low_rank.h"
#include "kernels/cuda/moe_decode.h"
#include "kernels/cuda/moe_prefill.h"
#include "kernels/cuda/moe_rows.h"
#include "kernels/cuda/moe_tile.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/page_tables.h"
#include "kernels/cuda/placed.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sequence_attention.h"
#include "kernels/cuda/state_space.h"
#include "kernels/cuda/step_arrays.h"
#include "kernels/cuda/step_outputs.h"
#include "kernels/cuda/top_logits.h"
#include "kernels/cuda/weight_store.h"
#include "kernels/dot_rule.h"
#include "kernels/rope.h"

namespace chimere::kernels::cuda {
namespace {

/// Ops::kv_layout(). Differs from the CPU's: the pages equal ref's, but prefill rows are computed
/// with this back end's arithmetic, whose sums within a tensor core differ between GPU
/// architectures.
uint32_t kv_layout_of(const DeviceFacts& facts) {
  const auto own = static_cast<uint32_t>(facts.own_capability);
  const auto chosen = static_cast<uint32_t>(facts.compute_capability);
  // A GPU under another profile matches neither architecture.
  return 0x20000U + chosen + (chosen == own ? 0U : 0x400U * own);
}

bool wants_rounded(const WeightView& w) { return takes_integer_dot(w.type); }

class CudaOps final : public Ops {
 public:
  CudaOps(Device& device, ThreadPool& pool, std::array<StepArrays, 2> arrays,
          PageTables page_tables, const WeightPlacement& places, OnUpload on_upload)
      : device_(device),
        stream_(device.stream()),
        host_ops_(make_cpu_ops(pool, places.host_isa)),
        weights_(device, pool, places.unpacked, std::move(on_upload)),
        all_arrays_(std::move(arrays)),
        page_tables_(std::move(page_tables)),
        host_experts_(device, pool, weights_, std::max(1, places.host_expert_buffers)),
        scratch_(device),
        rounded_(device),
        halves_(device),
        barrier_counters_(device),
        rope_(device),
        low_rank_(device) {}

  Status start();

  Memory& memory() override { return device_; }
  Result<WeightView> place(const WeightView& w) override { return weights_.place(w); }
  Result<const float*> place_floats(const float* values, int64_t n) override {
    return weights_.place_floats(values, n);
  }
  Result<std::unique_ptr<PlacedExperts>> place_experts(std::vector<ExpertWeights> routed,
                                                       std::optional<ExpertWeights> shared,
                                                       ExpertPlacement where) override;
  Result<std::unique_ptr<PlacedTable>> place_table(const WeightView& table) override;
  bool reads_host_weights() const override { return host_experts_.any() || unpinned_tables_ > 0; }

  Result<int32_t> place_adapter(LowRankAdapter adapter) override { return low_rank_.add(adapter); }
  void drop_adapter(int32_t number) override { low_rank_.drop(number); }
  bool adapts_experts() const override { return false; }
  Status launch_step(const StepInputs& step, const StepOutputs& outputs,
                     const std::function<void()>& pass) override;
  Result<StepOutputs> wait_for_step() override;
  Status interleaved_step(const std::function<void()>& steps) override;
  /// Uploads of host experts use the side stream throughout a step with prefill rows.
  bool can_interleave() const override { return !host_experts_.any(); }
  int64_t first_steps() const override { return first_steps_; }
  /// Host experts run on the thread pool, which the host itself uses while a step is in flight.
  bool supports_overlap() const override {
    return !host_experts_.any() && !embeddings_.empty() && unpinned_tables_ == 0;
  }

  Operand prepare(ConstMatrixView x, StepRows rows) override { return {x, rows, ++last_operand_}; }
  void select_rows(ConstMatrixView x, std::span<const int32_t> rows, MatrixView y) override;
  void shift_rows(const BatchView& batch, ConstMatrixView x, RecurrentView state,
                  MatrixView y) override;
  void embed(const PlacedTable& placed, std::span<const int32_t> tokens, ConstMatrixView vectors,
             MatrixView y) override;
  Operand rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y,
                   StepRows rows) override;
  void scale(MatrixView x, float factor) override;
  void add_bias(MatrixView y, const float* bias) override { cuda::add_bias(stream_, y, bias); }
  void copy(ConstMatrixView x, MatrixView y) override { cuda::copy(stream_, x, y); }
  void multiply(ConstMatrixView x, MatrixView y) override { cuda::multiply(stream_, x, y); }
  void group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                      MatrixView y) override {
    cuda::group_rms_norm(stream_, x, weight, group, eps, y);
  }
  Operand gated_group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                               MatrixView z) override;
  void causal_conv(const BatchView& /*batch*/, const ConvShape& shape, const float* weight,
                   const float* bias, RecurrentView state, MatrixView x) override {
    const DeviceBatch& batch = arrays().batch();
    if (!ok(scratch_.resize(conv_scratch_bytes(shape, batch.extent)))) return;
    cuda::causal_conv(stream_, batch, shape, weight, bias, state, x, scratch_.data());
  }
  void ssd_scan(const BatchView& /*batch*/, const SsdShape& shape, const SsdWeights& weights,
                ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state,
                MatrixView out) override {
    const DeviceBatch& batch = arrays().batch();
    if (!ok(scratch_.resize(ssd_scratch_bytes(shape, batch.extent)))) return;
    cuda::ssd_scan(stream_, batch, shape, weights, xbc, dt, state, out, scratch_.data());
  }
  void selective_scan(const BatchView& /*batch*/, const SelectiveShape& shape,
                      const SelectiveWeights& weights, const SelectiveInputs& inputs,
                      RecurrentView state, MatrixView out) override {
    cuda::selective_scan(stream_, arrays().batch(), shape, weights, inputs, state, out);
  }
  void linear(const Operand& x, std::span<const LinearJob> jobs) override;
  void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
                RecurrentView state, MatrixView qkv) override;
  void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
                RecurrentView state, MatrixView out) override;
  void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight, int head_dim,
                      float eps, MatrixView y) override;
  Operand gdn_mix(const BatchView& batch, const GdnShape& shape, const GdnOperands& operands,
                  MatrixView qkv, ConstMatrixView alpha, ConstMatrixView beta, ConstMatrixView z,
                  MatrixView out) override;
  int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) const override {
    return cuda::kv_page_bytes(shape, k_type, v_type);
  }
  uint32_t kv_layout() const override { return kv_layout_of(device_.facts()); }
  void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape, const float* q_norm,
                           const float* k_norm, float eps, MatrixView qg, ConstMatrixView k,
                           ConstMatrixView v, KvView kv) override;
  Operand attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg, KvView kv,
                 MatrixView out) override;
  Operand layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps,
                     MatrixView y, StepRows rows) override {
    cuda::layer_norm(stream_, x, weight, bias, eps, y);
    return prepare(y, rows);
  }
  void attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape, MatrixView q,
                        MatrixView k, ConstMatrixView v, MatrixView out) override;
  void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) override;
  void gather_logits(MatrixView logits, std::span<const int32_t> /*ids*/,
                     SelectedLogits selected) override {
    cuda::gather_logits(stream_, logits, arrays().selected_ids(), selected);
  }
  void log_sum_exp(ConstMatrixView logits, LogSumExp* sums) override;
  void choose(TopLogits top, std::span<const TokenChoice> /*choices*/, int32_t* chosen) override {
    choose_tokens(stream_, top, arrays().choices(), chosen);
  }
  Operand activate(Activation f, MatrixView h, ConstMatrixView up, StepRows rows) override;
  void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing) override {
    cuda::route(stream_, logits, spec, routing);
  }
  void keep_top_p(Routing routing, StepRows rows, std::span<const RowClass> classes, float top_p,
                  ExpertUse* use) override;
  void moe_ffn(const Operand& x, const PlacedExperts& experts, const Routing& routing,
               const float* shared_gate, const MoeOptions& options, MatrixView y) override;

 private:
  /// The rows of the step that a matrix has, by class.
  const RowClasses& classes_of(StepRows rows) const {
    return rows == StepRows::kWanted ? arrays().wanted_rows() : arrays().all_rows();
  }
  StepArrays& arrays() { return all_arrays_[pass_.interleaved ? 1 : 0]; }
  const StepArrays& arrays() const { return all_arrays_[pass_.interleaved ? 1 : 0]; }
  /// Memory for rounded rows.
  RoundedRows rounded_for(int64_t rows, int64_t n);
  /// All rows of x rounded, unless rounded_ still holds them.
  RoundedRows rounded(const Operand& x);
  /// The prefill rows of x as f16, unless halves_ still holds them.
  HalfRows halves(const Operand& x);
  bool ok(const Status& status);
  /// Reports an operand that has other rows than it says.
  bool has_rows(const Operand& x);
  const float* rope_rows(const AttentionShape& shape);
  Status stage_embedding(const CudaTable& table, std::span<const int32_t> tokens,
                         ConstMatrixView vectors);

  Device& device_;
  Stream& stream_;
  std::unique_ptr<Ops> host_ops_;  ///< decodes embedding rows
  WeightStore weights_;
  std::array<StepArrays, 2> all_arrays_;  ///< of a step, and of the steps interleaved with it
  PageTables page_tables_;
  CudaGraphCache graph_cache_;
  int64_t first_steps_ = 0;
  HostExperts host_experts_;
  const uint32_t* codebook_ = nullptr;

  Scratch scratch_;           ///< used by one op at a time
  Scratch rounded_;           ///< the operand pass_.in_rounded, rounded
  Scratch halves_;            ///< the operand pass_.in_halves as f16
  Scratch barrier_counters_;  ///< zero between ops
  Scratch rope_;              ///< rotations of the step's rows
  LowRankProducts low_rank_;
  /// What the frequencies of rotary positions follow from.
  struct RopeKey {
    int dims = 0;  ///< 0: none
    float base = 0;
    std::vector<float> factors;
  };
  std::vector<std::pair<RopeKey, const double*>> frequencies_;
  struct StagedRows {
    std::unique_ptr<Pinned> memory;
    size_t bytes = 0;
  };
  /// The step's embedding rows, one entry per table.
  std::vector<StagedRows> embeddings_;
  int unpinned_tables_ = 0;    ///< tables that are read in the caller's memory
  uint64_t last_operand_ = 0;  ///< Operand::id of the newest operand
  static_assert(Stream::kMarks == 2);
  Status queue_step(const StepInputs& step, const StepOutputs& outputs,
                    const std::function<void()>& pass);
  std::array<FetchedOutputs, 2> in_flight_;  ///< entry i uses the stream's mark i
  int first_ = 0;                            ///< the entry that wait_for_step() takes next
  int launched_ = 0;                         ///< entries in use
  /// State of the pass that is being submitted.
  struct PassState {
    explicit PassState(bool of_interleaved = false) : interleaved(of_interleaved) {}

    bool interleaved;  ///< the pass runs between the layers of another step
    Status status;
    uint64_t in_rounded = 0;  ///< Operand::id; 0: none
    uint64_t in_halves = 0;
    int rope = -1;  ///< index in frequencies_ of the table in rope_; -1: not filled yet
    const int32_t* async_token_from = nullptr;
    std::vector<const CudaTable*> embedding_tables;  ///< staged
  };
  PassState pass_;
};

Status CudaOps::start() {
  const std::vector<uint32_t> words = codebook_words();
  const size_t bytes = words.size() * sizeof(uint32_t);
  CHIMERE_TRY(const std::unique_ptr<MemoryRange> at, weights_.reserve(bytes));
  CHIMERE_CHECK_OK(device_.write(at->data(), words.data(), bytes));
  codebook_ = reinterpret_cast<const uint32_t*>(at->data());
  return {};
}

bool CudaOps::ok(const Status& status) {
  if (!status.ok() && pass_.status.ok()) pass_.status = status;
  return pass_.status.ok();
}

Result<std::unique_ptr<PlacedExperts>> CudaOps::place_experts(std::vector<ExpertWeights> routed,
                                                              std::optional<ExpertWeights> shared,
                                                              ExpertPlacement where) {
  const bool on_host = where == ExpertPlacement::kHost;
  const auto place_one = [&](ExpertWeights& e) -> Status {
    for (WeightView* w : {&e.gate, &e.up, &e.down}) {
      if (w->n_out == 0) continue;  // no gate
      CHIMERE_TRY(*w, place(*w));
    }
    return place_biases(*this, e);
  };
  if (shared) CHIMERE_CHECK_OK(place_one(*shared));
  if (!on_host) {
    for (ExpertWeights& e : routed) CHIMERE_CHECK_OK(place_one(e));
  }
  auto placed = std::make_unique<CudaExperts>(std::move(routed), shared);
  const ExpertWeights* const shared_one = placed->shared ? &*placed->shared : nullptr;
  if (on_host) {
    CHIMERE_TRY(placed->host_layer, host_experts_.add(placed->routed, shared_one));
  } else {
    CHIMERE_TRY(placed->table, ExpertTable::create(weights_, placed->routed, shared_one));
  }
  return std::unique_ptr<PlacedExperts>(std::move(placed));
}

Result<std::unique_ptr<PlacedTable>> CudaOps::place_table(const WeightView& table) {
  auto placed = std::make_unique<CudaTable>(table);
  // Without pinned memory there is no overlap scheduling.
  if (!host_experts_.any() && embeds_on_gpu(table.type)) {
    const auto bytes = static_cast<size_t>(table.bytes());
    if (auto memory = device_.pinned(bytes); memory.ok()) {
      placed->pinned = *std::move(memory);
      std::memcpy(placed->pinned->data(), table.data, bytes);
      placed->table.data = placed->pinned->data();
    }
  }
  if (placed->pinned == nullptr) ++unpinned_tables_;
  CHIMERE_TRY(placed->for_host, host_ops_->place_table(placed->table));
  placed->number = embeddings_.size();
  embeddings_.emplace_back();
  return std::unique_ptr<PlacedTable>(std::move(placed));
}

Status CudaOps::launch_step(const StepInputs& step, const StepOutputs& outputs,
                            const std::function<void()>& pass) {
  Status queued = queue_step(step, outputs, pass);
  // Steps interleaved with this one have been completed.
  const int number = (first_ + launched_) % 2;
  FetchedOutputs& in_flight = in_flight_[static_cast<size_t>(number)];
  if (queued.ok()) queued = in_flight.fetch(device_, outputs);
  if (!queued.ok()) {
    (void)stream_.synchronize();  // submitted work reads memory that the next step writes
    return queued;
  }
  stream_.mark(number);
  ++launched_;
  return {};
}

Result<StepOutputs> CudaOps::wait_for_step() {
  const int number = first_;
  first_ = 1 - first_;
  --launched_;
  CHIMERE_CHECK_OK(stream_.wait_for_mark(number));
  return in_flight_[static_cast<size_t>(number)].outputs();
}

Status CudaOps::interleaved_step(const std::function<void()>& steps) {
  CHIMERE_CHECK_OK(stream_.synchronize());
  PassState outer = std::exchange(pass_, PassState(true));
  steps();
  pass_ = std::move(outer);
  // The interleaved steps have overwritten this memory.
  pass_.in_rounded = pass_.in_halves = 0;
  pass_.rope = -1;
  pass_.embedding_tables.clear();
  return {};
}

Status CudaOps::queue_step(const StepInputs& step, const StepOutputs& outputs,
                           const std::function<void()>& pass) {
  CHIMERE_CHECK_OK(weights_.finish());
  pass_ = PassState(pass_.interleaved);
  pass_.async_token_from = step.async_from.empty() ? nullptr : step.async_token_from;
  CHIMERE_CHECK_OK(arrays().upload(step, page_tables_, pass_.interleaved));
  GraphKey key = graph_key_of(step, outputs, arrays().batch().extent);
  key.interleaved = pass_.interleaved;
  if (!step.adapters.empty()) key.adapters = low_rank_.version();
  arrays().widen(key.positions);
  if (arrays().all_rows().prefill.count > 0) host_experts_.begin_prefill();
  CudaGraphCache::Entry* const entry = graph_cache_.find(key);
  if (entry != nullptr && entry->graph == nullptr) ++first_steps_;
  if (entry == nullptr || !entry->seen) {
    pass();
    if (entry != nullptr) {
      entry->seen = pass_.status.ok();
      entry->embedding_tables.assign(pass_.embedding_tables.begin(), pass_.embedding_tables.end());
    }
  } else if (entry->graph == nullptr) {
    stream_.begin_capture();
    pass();
    entry->graph = stream_.end_capture();
    // A pass that failed has not issued all its ops.
    if (!pass_.status.ok()) entry->graph.reset();
  } else {
    for (const PlacedTable* table : entry->embedding_tables) {
      CHIMERE_CHECK_OK(
          stage_embedding(static_cast<const CudaTable&>(*table), step.tokens, step.vectors));
    }
  }
  if (entry != nullptr && entry->graph != nullptr) stream_.replay(*entry->graph);
  return pass_.status;
}

Status CudaOps::stage_embedding(const CudaTable& table, std::span<const int32_t> tokens,
                                ConstMatrixView vectors) {
  StagedRows& staged = embeddings_[table.number];
  // Captured steps copy from this memory, so it is allocated for the largest of them.
  const size_t rows = std::max(tokens.size(), static_cast<size_t>(kMaxGraphRows));
  const int64_t n = table.table.n_in;
  const size_t bytes = rows * static_cast<size_t>(n) * sizeof(float);
  if (bytes > staged.bytes) {
    graph_cache_.forget();
    CHIMERE_TRY(staged.memory, device_.pinned(bytes));
    staged.bytes = bytes;
  }
  host_ops_->embed(
      *table.for_host, tokens, vectors,
      {reinterpret_cast<float*>(staged.memory->data()), static_cast<int64_t>(tokens.size()), n, n});
  return {};
}

void CudaOps::embed(const PlacedTable& placed, std::span<const int32_t> tokens,
                    ConstMatrixView vectors, MatrixView y) {
  const auto& table = static_cast<const CudaTable&>(placed);
  if (pass_.async_token_from != nullptr) {
    embed_tokens(stream_, table.table, pass_.async_token_from, arrays().async_from(), y);
    return;
  }
  std::vector<const CudaTable*>& staged = pass_.embedding_tables;
  if (std::ranges::find(staged, &table) == staged.end()) {
    if (!ok(stage_embedding(table, tokens, vectors))) return;
    staged.push_back(&table);
  }
  stream_.copy(y.data, embeddings_[table.number].memory->data(),
               static_cast<size_t>(y.rows * y.cols) * sizeof(float));
}

void CudaOps::shift_rows(const BatchView& /*batch*/, ConstMatrixView x, RecurrentView state,
                         MatrixView y) {
  cuda::shift_rows(stream_, arrays().batch(), x, state, y);
}

void CudaOps::select_rows(ConstMatrixView x, std::span<const int32_t> /*rows*/, MatrixView y) {
  cuda::select_rows(stream_, x, arrays().wanted_ids(), y);
}

Operand CudaOps::rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y,
                          StepRows rows) {
  const Operand result = prepare(y, rows);
  // Rounded rows must belong to a whole matrix. Products of prefill rows read halves.
  const bool rounds =
      y.cols % kActivationBlock == 0 && y.cols == y.stride && classes_of(rows).decode.count > 0;
  const RoundedRows rounded = rounds ? rounded_for(y.rows, y.cols) : RoundedRows{};
  if (!ok({})) return result;
  cuda::rms_norm(stream_, x, weight, eps, y, rounded);
  if (rounds) pass_.in_rounded = result.id;
  return result;
}

Operand CudaOps::gated_group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                                      MatrixView z) {
  if (!takes_gated_group(group)) return Ops::gated_group_rms_norm(x, weight, group, eps, z);
  const Operand result = prepare(z, StepRows::kAll);
  const bool rounds = z.cols == z.stride && arrays().all_rows().decode.count > 0;
  const RoundedRows rounded = rounds ? rounded_for(z.rows, z.cols) : RoundedRows{};
  if (!ok({})) return result;
  cuda::gated_group_rms_norm(stream_, x, weight, group, eps, z, rounded);
  if (rounds) pass_.in_rounded = result.id;
  return result;
}

RoundedRows CudaOps::rounded_for(int64_t rows, int64_t n) {
  // Only steps of few rows read tiles; for prefill they would only be written.
  if (rows > kMaxGraphRows) {
    if (!ok(rounded_.resize(rounded_bytes(rows, n)))) return {};
    return rounded_rows_at(rounded_.data(), rows, n);
  }
  if (!ok(rounded_.resize(tiled_rounded_bytes(rows, n)))) return {};
  return tiled_rounded_rows_at(rounded_.data(), rows, n);
}

RoundedRows CudaOps::rounded(const Operand& x) {
  const RoundedRows rows = rounded_for(x.x.rows, x.x.cols);
  if (!ok({})) return {};
  if (x.id == 0 || pass_.in_rounded != x.id) round_rows(stream_, x.x, rows);
  pass_.in_rounded = x.id;
  return rows;
}

HalfRows CudaOps::halves(const Operand& x) {
  if (!ok(halves_.resize(half_rows_bytes(x.x.rows, x.x.cols)))) return {};
  const HalfRows to = half_rows_at(halves_.data(), x.x.rows, x.x.cols);
  if (x.id == 0 || pass_.in_halves != x.id) {
    half_rows(stream_, x.x, classes_of(x.rows).prefill, to);
  }
  pass_.in_halves = x.id;
  return to;
}

bool CudaOps::has_rows(const Operand& x) {
  const auto& [decode, prefill] = classes_of(x.rows);
  if (x.x.rows == int64_t{decode.count} + prefill.count) return ok({});
  return ok(invalid_argument("an operand has " + std::to_string(x.x.rows) + " rows, but the step " +
                             std::to_string(decode.count + prefill.count)));
}

void CudaOps::scale(MatrixView x, float factor) { cuda::scale(stream_, x, factor); }

void CudaOps::linear(const Operand& x, std::span<const LinearJob> jobs) {
  if (!has_rows(x)) return;
  const auto& [decode, prefill] = classes_of(x.rows);
  const bool any = std::ranges::any_of(jobs, [](const auto& job) { return wants_rounded(job.w); });
  const RoundedRows q = any && decode.count > 0 ? rounded(x) : RoundedRows{};
  const HalfRows h = any && prefill.count > 0 ? halves(x) : HalfRows{};
  if (!ok({})) return;
  if (decode.count > 0) linear_decode(stream_, device_.facts(), x.x, q, decode, codebook_, jobs);
  if (prefill.count > 0) linear_prefill(stream_, x.x, h, prefill, codebook_, jobs);
  if (arrays().adapters().empty()) return;
  const int32_t* const ids = x.rows == StepRows::kWanted ? arrays().wanted_ids() : nullptr;
  (void)ok(low_rank_.add_products(x.x, ids, arrays().adapters(), jobs));
}

void CudaOps::gdn_conv(const BatchView& /*batch*/, const GdnShape& shape, const float* weight,
                       float eps, RecurrentView state, MatrixView qkv) {
  const DeviceBatch& batch = arrays().batch();
  if (!ok(scratch_.resize(gdn_scratch_bytes(shape, batch.extent)))) return;
  cuda::gdn_conv(stream_, batch, shape, weight, eps, state, qkv, scratch_.data());
}

void CudaOps::gdn_scan(const BatchView& /*batch*/, const GdnShape& shape, ConstMatrixView qkv,
                       ConstMatrixView alpha, ConstMatrixView beta, const float* a,
                       const float* dt_bias, RecurrentView state, MatrixView out) {
  const DeviceBatch& batch = arrays().batch();
  if (!ok(scratch_.resize(gdn_scratch_bytes(shape, batch.extent)))) return;
  cuda::gdn_scan(stream_, batch, shape, qkv, alpha, beta, a, dt_bias, state, out, scratch_.data());
}

void CudaOps::gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight,
                             int head_dim, float eps, MatrixView y) {
  cuda::gated_rms_norm(stream_, x, z, weight, head_dim, eps, y, {});
}

Operand CudaOps::gdn_mix(const BatchView& /*batch*/, const GdnShape& shape,
                         const GdnOperands& operands, MatrixView qkv, ConstMatrixView alpha,
                         ConstMatrixView beta, ConstMatrixView z, MatrixView out) {
  const DeviceBatch& batch = arrays().batch();
  const Operand result = prepare(out, StepRows::kAll);
  const int64_t barrier_counters = int64_t{batch.extent.n_sequences} * shape.n_k_heads;
  if (!ok(barrier_counters_.resize_zeroed(barrier_counters *
                                          static_cast<int64_t>(sizeof(uint32_t))))) {
    return result;
  }
  if (!ok(scratch_.resize(gdn_scratch_bytes(shape, batch.extent)))) return result;
  const bool rounds =
      shape.head_dim % kActivationBlock == 0 && arrays().all_rows().decode.count > 0;
  const RoundedRows rounded = rounds ? rounded_for(out.rows, out.cols) : RoundedRows{};
  if (!ok({})) return result;
  cuda::gdn_mix(stream_, batch, shape, operands, qkv, alpha, beta, z, out, rounded, scratch_.data(),
                reinterpret_cast<uint32_t*>(barrier_counters_.data()));
  if (rounds) pass_.in_rounded = result.id;
  return result;
}

const float* CudaOps::rope_rows(const AttentionShape& shape) {
  if (shape.rope_dims == 0) return nullptr;
  auto* const table = reinterpret_cast<float*>(rope_.data());
  const size_t n_factors =
      shape.rope_factors == nullptr ? 0 : static_cast<size_t>(shape.rope_dims) / 2;
  const std::span<const float> factors(shape.rope_factors, n_factors);
  auto known = std::ranges::find_if(frequencies_, [&](const auto& f) {
    return f.first.dims == shape.rope_dims && f.first.base == shape.rope_base &&
           std::ranges::equal(f.first.factors, factors);
  });
  if (known == frequencies_.end()) {
    std::vector<double> values = rope_frequencies(shape.rope_dims, shape.rope_base);
    for (size_t i = 0; i < factors.size(); ++i) values[i] /= factors[i];
    const size_t bytes = values.size() * sizeof(double);
    auto at = weights_.reserve(bytes);
    if (!ok(at.ok() ? Status() : at.error())) return table;
    if (!ok(device_.write((*at)->data(), values.data(), bytes))) return table;
    RopeKey key = {shape.rope_dims, shape.rope_base, {factors.begin(), factors.end()}};
    frequencies_.emplace_back(std::move(key), reinterpret_cast<const double*>((*at)->data()));
    known = frequencies_.end() - 1;
  }
  const auto number = static_cast<int>(known - frequencies_.begin());
  if (pass_.rope == number) return table;
  rope_table(stream_, arrays().batch(), shape.rope_dims, known->second, table);
  pass_.rope = number;
  return table;
}

void CudaOps::qk_norm_rope_append(const BatchView& /*batch*/, const AttentionShape& shape,
                                  const float* q_norm, const float* k_norm, float eps,
                                  MatrixView qg, ConstMatrixView k, ConstMatrixView v, KvView kv) {
  const DeviceBatch& batch = arrays().batch();
  const int64_t table = int64_t{batch.extent.n_rows} * shape.rope_dims;
  if (!ok(rope_.resize(table * static_cast<int64_t>(sizeof(float))))) return;
  const float* const rope = rope_rows(shape);
  cuda::qk_norm_rope_append(stream_, batch, shape, rope, q_norm, k_norm, eps, qg, k, v, kv);
}

Operand CudaOps::attend(const BatchView& /*batch*/, const AttentionShape& shape, ConstMatrixView qg,
                        KvView kv, MatrixView out) {
  const DeviceBatch& batch = arrays().batch();
  const Operand result = prepare(out, StepRows::kAll);
  const int multiprocessors = device_.facts().multiprocessors;
  if (!ok(scratch_.resize(attend_scratch_bytes(shape, batch.extent, multiprocessors)))) {
    return result;
  }
  const bool rounds = shape.head_dim % kActivationBlock == 0 && out.cols == out.stride &&
                      arrays().all_rows().prefill.count == 0;
  const RoundedRows rounded = rounds ? rounded_for(out.rows, out.cols) : RoundedRows{};
  if (!ok({})) return result;
  cuda::attend(stream_, batch, shape, qg, kv, out, rounded, multiprocessors,
               device_.facts().shared_bytes, scratch_.data());
  if (rounds) pass_.in_rounded = result.id;
  return result;
}

Operand CudaOps::activate(Activation f, MatrixView h, ConstMatrixView up, StepRows rows) {
  const Operand result = prepare(h, rows);
  const bool rounds =
      h.cols % kActivationBlock == 0 && h.cols == h.stride && classes_of(rows).decode.count > 0;
  const RoundedRows rounded = rounds ? rounded_for(h.rows, h.cols) : RoundedRows{};
  if (!ok({})) return result;
  cuda::activate(stream_, f, h, up, rounded);
  if (rounds) pass_.in_rounded = result.id;
  return result;
}

void CudaOps::attend_sequences(const BatchView& /*batch*/, const SequenceAttentionShape& shape,
                               MatrixView q, MatrixView k, ConstMatrixView v, MatrixView out) {
  const DeviceBatch& batch = arrays().batch();
  const int64_t table = int64_t{batch.extent.n_rows} * shape.heads.rope_dims;
  if (!ok(rope_.resize(table * static_cast<int64_t>(sizeof(float))))) return;
  cuda::attend_sequences(stream_, batch, shape, rope_rows(shape.heads), q, k, v, out);
}

void CudaOps::top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) {
  if (!ok(scratch_.resize(top_logits_scratch_bytes(top.rows, logits.cols, top.count)))) return;
  cuda::top_logits(stream_, logits, masks.empty() ? nullptr : arrays().masks(), top,
                   scratch_.data());
}

void CudaOps::log_sum_exp(ConstMatrixView logits, LogSumExp* sums) {
  if (!ok(scratch_.resize(log_sum_exp_scratch_bytes(logits.rows, logits.cols)))) return;
  cuda::log_sum_exp(stream_, logits, sums, scratch_.data());
}

void CudaOps::keep_top_p(Routing routing, StepRows rows, std::span<const RowClass> /*classes*/,
                         float top_p, ExpertUse* use) {
  const RowSet& decode = classes_of(rows).decode;
  if (decode.count > 0) cuda::keep_top_p(stream_, routing, decode, top_p, use);
}

void CudaOps::moe_ffn(const Operand& x, const PlacedExperts& experts, const Routing& routing,
                      const float* shared_gate, const MoeOptions& options, MatrixView y) {
  if (!has_rows(x)) return;
  const auto& [decode, prefill] = classes_of(x.rows);
  const auto& placed = static_cast<const CudaExperts&>(experts);
  const bool on_host = placed.host_layer.has_value();
  const ExpertTable& table = on_host ? host_experts_.table(*placed.host_layer) : placed.table;
  const bool in_halves = moe_prefill_takes_halves(table);
  const RoundedRows q = decode.count > 0 || !in_halves ? rounded(x) : RoundedRows{};
  const HalfRows h = prefill.count > 0 && in_halves ? halves(x) : HalfRows{};
  if (!ok({})) return;
  if (on_host) {
    HostExperts::Call call = {x.x,         q,       h,         decode,  prefill, routing,
                              shared_gate, options, codebook_, nullptr, y};
    if (!ok(scratch_.resize(host_experts_.scratch_bytes(*placed.host_layer, call)))) return;
    call.scratch = scratch_.data();
    host_experts_.ffn(*placed.host_layer, call);
    return;
  }
  const auto tiles = prefers_moe_tiles(table, decode.count, routing.n_used)
                         ? plan_moe_tiles(table, x.x.cols, device_.facts().shared_bytes)
                         : std::nullopt;
  const int64_t bytes =
      std::max(tiles ? moe_tile_scratch_bytes(table, decode.count, routing.n_used, x.x.cols)
                     : moe_decode_scratch_bytes(table, decode.count, routing.n_used),
               moe_prefill_scratch_bytes(table, prefill.count, routing.n_used, x.x.cols));
  if (!ok(scratch_.resize(bytes))) return;
  uint8_t* const scratch = scratch_.data();
  const auto rows =
      tiles ? std::nullopt
            : plan_moe_rows(table, decode.count, routing.n_used, x.x.cols,
                            device_.facts().multiprocessors, device_.facts().shared_bytes);
  if (decode.count > 0 && tiles) {
    moe_tile(stream_, device_.facts().multiprocessors, *tiles, table, q, decode, routing,
             shared_gate, options, scratch, y);
  } else if (rows) {
    moe_rows(stream_, *rows, table, q, decode, routing, shared_gate, options, codebook_, scratch,
             y);
  } else if (decode.count > 0) {
    moe_decode(stream_, device_.facts().multiprocessors, table, x.x, q, decode, routing,
               shared_gate, options, codebook_, scratch, y);
  }
  if (prefill.count > 0) {
    moe_prefill(stream_, device_.facts().multiprocessors, table, x.x, q, h, prefill, routing,
                shared_gate, options, codebook_, scratch, y);
  }
}

}  // namespace

Result<std::unique_ptr<Ops>> make_cuda_ops(Device& device, ThreadPool& pool,
                                           const WeightPlacement& placement, OnUpload on_upload) {
  CHIMERE_TRY(StepArrays arrays, StepArrays::create(device));
  CHIMERE_TRY(StepArrays of_interleaved, StepArrays::create(device));
  CHIMERE_TRY(PageTables page_tables, PageTables::create(device));
  auto ops = std::make_unique<CudaOps>(device, pool,
                                       std::array{std::move(arrays), std::move(of_interleaved)},
                                       std::move(page_tables), placement, std::move(on_upload));
  CHIMERE_CHECK_OK(ops->start());
  return std::unique_ptr<Ops>(std::move(ops));
}

}  // namespace chimere::kernels::cuda
