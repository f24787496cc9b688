// The op set: what a model's forward pass is written in. Each op has a scalar oracle (ref/), a CPU
// implementation (cpu/) and a CUDA one (cuda/); all follow docs/numerics.md, which fixes the order
// of every sum, so that a row's result is the same bits in any batch, with any number of threads
// and on any instruction set.
//
// Ops are coarse, take a ragged batch of rows of many sequences at once, and know no model.
// Pointers are device memory. Shapes are checked by the model when it is loaded, not here. Ops may
// use scratch memory that belongs to the Ops object; one call at a time for each Ops object.
#ifndef CHIMERE_KERNELS_API_H_
#define CHIMERE_KERNELS_API_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/token_choice.h"
#include "tensor/memory.h"
#include "tensor/view.h"

namespace chimere::kernels {

/// Rows of a chunk are computed together (chunked delta rule); a chunk is complete within one step
/// and its boundaries are a pure function of the token ids. Decode rows are computed one after the
/// other. A row's arithmetic depends on its class and its token prefix only.
enum class RowClass : int32_t { kPrefill = 0, kDecode = 1 };

/// Of docs/numerics.md; part of the key of every stored state.
inline constexpr uint32_t kNumericsVersion = 2;

inline constexpr int kMaxChunkRows = 64;
inline constexpr int kKvPageTokens = 64;

/// Consecutive rows of one sequence: one whole chunk (at most kMaxChunkRows rows) or any number of
/// decode rows.
struct Slice {
  int32_t sequence = 0;  ///< index into the step's sequences
  int32_t row_begin = 0;
  int32_t row_count = 0;
  RowClass row_class = RowClass::kDecode;
};

/// What a step's rows are. Rows of a sequence are contiguous and in order of position.
struct BatchView {
  int32_t n_rows = 0;
  int32_t n_sequences = 0;
  std::span<const Slice> slices;             ///< ordered by sequence, then position
  std::span<const int32_t> sequence_slices;  ///< [n_sequences + 1]: first slice of each sequence
  std::span<const int32_t> row_sequence;     ///< [n_rows]
  std::span<const int32_t> row_position;     ///< [n_rows], from 0
  std::span<const int32_t> read_slot;        ///< [n_sequences] recurrent state before the first row
  std::span<const int32_t>
      write_slot;  ///< [n_rows] where the state after that row goes; -1: nowhere.
                   ///  In a chunk only the last row may have one. May equal read_slot.
  std::span<const int32_t>
      page_table;  ///< KV page numbers, the sequences' lists one after the other
  std::span<const int32_t>
      page_begin;  ///< [n_sequences] start of each sequence's list in page_table
};

/// A token and its logit.
struct TopLogit {
  float value = 0;
  int32_t id = 0;
};

/// The largest logits of rows, [rows, count]: larger first, ties to the lower id. Tokens at
/// -infinity are not among them: places that nothing is left for have id -1 and -infinity. A row
/// with a NaN or +infinity has id -1 and +infinity in its first place.
struct TopLogits {
  TopLogit* data = nullptr;
  int64_t rows = 0;
  int32_t count = 0;

  std::span<TopLogit> row(int64_t r) const {
    return {data + r * count, static_cast<size_t>(count)};
  }
};
inline constexpr int32_t kMaxTopLogits = 128;

/// Logits of some tokens of each row, [rows, count].
struct SelectedLogits {
  float* data = nullptr;
  int64_t rows = 0;
  int32_t count = 0;

  std::span<float> row(int64_t r) const { return {data + r * count, static_cast<size_t>(count)}; }
};
inline constexpr int32_t kMaxSelectedLogits = 1024;

/// The token that `choice` chooses from a row's largest logits; -1: there is none.
int32_t choose_token(std::span<const TopLogit> largest, const TokenChoice& choice);

/// What a row's softmax is normalised by, and its entropy: sums over all its logits that are not
/// -infinity, x = logit - largest, of e^x and x e^x, in the order of docs/numerics.md
/// ("log_sum_exp"). Without any: largest = -infinity and sums of 0. Worth nothing if a logit is
/// +infinity or a NaN.
struct LogSumExp {
  double e = 0;
  double xe = 0;
  float largest = 0;
};

/// What a step gives: rows of logits, and of other rows the largest, with what else was asked of
/// them.
struct StepOutputs {
  ConstMatrixView logits;
  TopLogits top;
  SelectedLogits selected = {};  ///< rows of `top`, or none
  LogSumExp* sums = nullptr;     ///< [top.rows]; nullptr: not asked for
  int32_t* chosen = nullptr;     ///< [top.rows] tokens; nullptr: not asked for
};

/// A step: its rows, and what the host knows of them.
struct StepInputs {
  BatchView batch;
  std::span<const int32_t> tokens;       ///< [n_rows]
  std::span<const int32_t> wanted_rows;  ///< rows of the step whose logits are wanted
  std::span<const int32_t> selected;     ///< StepOutputs::listed: the tokens' ids; -1: none
  int32_t pass = 0;  ///< which of the caller's passes: those of one number call the same ops
  std::span<const TokenChoice> choices = {};  ///< StepOutputs::chosen: how
  /// [n_rows]: the row's token is async_token_from[async_from[row]]; empty: it is the one of
  /// `tokens`.
  std::span<const int32_t> async_from = {};
  const int32_t* async_token_from =
      nullptr;  ///< StepOutputs::chosen of the step before, in memory()
};

/// Fixed-size state of one layer for many sequences: slot s starts at base + s * slot_stride (in
/// floats).
struct RecurrentView {
  float* base = nullptr;
  int64_t slot_stride = 0;
};

/// Gated delta-net layer. q and k heads have `head_dim` elements (a multiple of 16, at most 256),
/// so have v heads. conv_kernel is 2 to 8.
struct GdnShape {
  int n_k_heads = 0;
  int n_v_heads = 0;
  int head_dim = 0;
  int conv_kernel = 4;
  bool tiled_heads =
      true;  ///< v head h reads k head h % n_k_heads (else h / (n_v_heads / n_k_heads))

  int key_dim() const { return n_k_heads * head_dim; }
  int value_dim() const { return n_v_heads * head_dim; }
  int conv_dim() const { return 2 * key_dim() + value_dim(); }
  int64_t conv_state_floats() const { return static_cast<int64_t>(conv_kernel - 1) * conv_dim(); }
  int64_t scan_state_floats() const {
    return static_cast<int64_t>(n_v_heads) * head_dim * head_dim;
  }
};

/// What a gated delta-net layer reads and writes besides its inputs: see Ops::gdn_conv,
/// Ops::gdn_scan and Ops::gated_rms_norm.
struct GdnOperands {
  const float* conv_weight = nullptr;
  RecurrentView conv_state;
  const float* a = nullptr;
  const float* dt_bias = nullptr;
  RecurrentView scan_state;
  const float* norm = nullptr;
  float eps = 0;  ///< of all its norms
};

/// n_heads is a multiple of n_kv_heads, head_dim a multiple of 16.
struct AttentionShape {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int rope_dims =
      0;  ///< the first rope_dims elements of a head are rotated, pairs (i, i + rope_dims / 2)
  float rope_base = 1e7F;
  float scale = 0;    ///< of the scores, usually 1 / sqrt(head_dim)
  bool gated = true;  ///< every head has an output gate, behind its query

  /// From one head's query to the next one's.
  int query_stride() const { return gated ? 2 * head_dim : head_dim; }
};

/// Paged keys and values of one layer: page p starts at base + p * page_bytes and holds
/// kKvPageTokens positions. The layout inside a page is the implementation's own. Pools interleave
/// layers, so page_bytes is a distance, at least what Ops::kv_page_bytes() asks for.
/// Each type is one that is_kv_type() takes. Heads of quantised keys (values) are stored rotated:
/// docs/numerics.md, "Rotated heads".
struct KvView {
  uint8_t* base = nullptr;
  int64_t page_bytes = 0;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
};

/// f32, f16, bf16, q8_0 and q4_0; head_dim must be a multiple of the last two's block of 32.
constexpr bool is_kv_type(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || t == DType::kQ8_0 ||
         t == DType::kQ4_0;
}

struct LinearJob {
  WeightView w;             ///< [n_out, n_in]
  MatrixView y;             ///< [rows, n_out]
  bool accumulate = false;  ///< y += W x instead of y = W x (the residual stream)
};

struct ExpertWeights {
  WeightView gate;  ///< [n_ff, n_embd]
  WeightView up;    ///< [n_ff, n_embd]
  WeightView down;  ///< [n_embd, n_ff]
};

/// Which experts each row uses, in rank order (largest weight first; ties to the lower id).
struct Routing {
  int n_used = 0;
  int32_t* ids = nullptr;    ///< [rows, n_used]; -1 from some rank on: left out (keep_top_p)
  float* weights = nullptr;  ///< [rows, n_used]
};

/// Experts that rows were sent to, of each layer that a row went through.
struct ExpertUse {
  int64_t rows = 0;
  int64_t experts = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// Where states and activations lie, and the weights that place() gave. The host's own unless an
  /// implementation says otherwise.
  virtual Memory& memory() { return host_memory(); }

  /// A weight matrix of the host's memory as the ops of this object read it: by default the same
  /// view. A placed view may be cut behind any of its rows, but not begin elsewhere. Errors:
  /// kOutOfMemory, kIo.
  virtual Result<WeightView> place(const WeightView& w) { return w; }
  /// The same for n floats that ops read by themselves (norms, convolutions, biases).
  virtual Result<const float*> place_floats(const float* values, int64_t n);
  /// The same for a layer's experts, in their places: moe_ffn knows them by `experts.data()`, which
  /// must stay. `shared` may be nullptr.
  virtual Status place_experts(std::span<ExpertWeights> experts, ExpertWeights* shared);

  /// Sets out to compute a step: `pass` calls the ops, in an order that depends on nothing but
  /// step.pass and the numbers of rows, sequences and wanted rows, and on memory that is the same
  /// whenever these are. An implementation may keep what was asked for and do it again, without
  /// calling `pass`, for a later step of the same kind. Where supports_overlap(), a second step may
  /// be launched before the first one is waited for; it works behind that one, on the same memory.
  /// Errors: kIo, kOutOfMemory; the states of the step's sequences are worth nothing then.
  virtual Status launch_step(const StepInputs& step, const StepOutputs& outputs,
                             const std::function<void()>& pass);
  /// Waits for the step that was launched first. Returns its `outputs`, which the pass wrote, in
  /// the host's memory, valid until the next step but one is launched. Errors as launch_step(),
  /// which had none.
  virtual Result<StepOutputs> wait_for_step();
  /// One after the other, while no step is in flight.
  Result<StepOutputs> run_step(const StepInputs& step, const StepOutputs& outputs,
                               const std::function<void()>& pass);
  /// In the midst of a pass with prefill rows, which is never kept for later steps: `steps` may
  /// compute other steps, when what the pass has asked for so far is done. Errors: kIo.
  virtual Status interleaved_step(const std::function<void()>& steps);
  /// Whether there may be interrupts.
  virtual bool can_interleave() const { return true; }
  /// Whether StepInputs::async_from may be used: tokens of one of the tables of prepare_table().
  virtual bool supports_overlap() const { return false; }
  /// embed() may be called for tokens of this table that the step before chooses, if
  /// supports_overlap() afterwards. Before the first step. Errors: kIo.
  virtual Status prepare_table(const WeightView& table);

  /// Rows `rows` of x, in their order; for the step's wanted_rows alone, and once a step: the ops
  /// behind it compute these rows.
  virtual void select_rows(ConstMatrixView x, std::span<const int32_t> rows, MatrixView y);

  /// y[r] = the row of x before r in its sequence; of a sequence's first row what the state before
  /// it holds. The state behind row r, where it has a write slot, is x[r]. x, y [rows, n], which do
  /// not overlap; state [n].
  virtual void shift_rows(const BatchView& batch, ConstMatrixView x, RecurrentView state,
                          MatrixView y);

  /// y[r] = row tokens[r] of the table, decoded to f32, for the step's tokens (or those that it is
  /// fed). y [rows, n_in], without gaps. The table is in the host's memory, as in the file.
  virtual void embed(const WeightView& table, std::span<const int32_t> tokens, MatrixView y) = 0;

  /// y = x / sqrt(mean(x²) + eps) * weight, per row. x, y [rows, n]; y may be x.
  virtual void rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y) = 0;

  /// Every job's y = W x (or y += W x) for the same x [rows, n_in]. Quantised weights meet
  /// activations that were rounded once to int8 blocks of 32 with an f32 scale; float weights meet
  /// f32 activations.
  virtual void linear(ConstMatrixView x, std::span<const LinearJob> jobs) = 0;

  /// Causal depthwise convolution over time, then SiLU, then L2 normalisation of the q and k heads.
  /// qkv [rows, conv_dim] in place: q heads, k heads, v heads. weight f32 [conv_dim, conv_kernel].
  /// State: the last conv_kernel - 1 inputs, [conv_kernel - 1, conv_dim], oldest first.
  virtual void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight,
                        float eps, RecurrentView state, MatrixView qkv) = 0;

  /// Gated delta rule (Yang et al. 2024, arXiv:2412.06464), per v head, with q scaled by
  /// 1/sqrt(head_dim):
  ///   g = exp(a * softplus(alpha + dt_bias)), beta' = sigmoid(beta)
  ///   S = g S;  S += k ⊗ (beta' (v − kᵀ S));  out = qᵀ S
  /// qkv as gdn_conv leaves it; alpha, beta [rows, n_v_heads] raw projections; a (negative),
  /// dt_bias [n_v_heads]; state [n_v_heads, head_dim (k), head_dim (v)]; out [rows, value_dim].
  virtual void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                        ConstMatrixView alpha, ConstMatrixView beta, const float* a,
                        const float* dt_bias, RecurrentView state, MatrixView out) = 0;

  /// Per head of `head_dim`: y = x / sqrt(mean(x²) + eps) * weight[head_dim] * silu(z). y may be x.
  virtual void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight,
                              int head_dim, float eps, MatrixView y) = 0;

  /// A layer's gdn_conv, gdn_scan and gated_rms_norm (with the gate z) one after the other; qkv has
  /// no meaning afterwards.
  virtual void gdn_mix(const BatchView& batch, const GdnShape& shape, const GdnOperands& operands,
                       MatrixView qkv, ConstMatrixView alpha, ConstMatrixView beta,
                       ConstMatrixView z, MatrixView out);

  /// Bytes of one KV page of one layer (a multiple of 64).
  virtual int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) const = 0;

  /// Names how this implementation arranges the bytes inside a KV page, and its own arithmetic for
  /// chunks where it has one; part of the key of every stored state.
  virtual uint32_t kv_layout() const = 0;

  /// RMS-normalises every q and k head (weights q_norm, k_norm [head_dim]), rotates them by their
  /// position, and appends k and v to the pages. Keys, with the queries, and values of quantised
  /// types are rotated once more, by a Walsh-Hadamard matrix, so that outliers spread over the
  /// head. qg [rows, n_heads * query_stride()]: per head the query, then its output gate if the
  /// shape has gates; the queries are changed in place. k, v [rows, n_kv_heads * head_dim].
  virtual void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape,
                                   const float* q_norm, const float* k_norm, float eps,
                                   MatrixView qg, ConstMatrixView k, ConstMatrixView v,
                                   KvView kv) = 0;

  /// Causal attention of every row over positions [0, its own], times sigmoid(gate) if the shape
  /// has gates. qg as qk_norm_rope_append leaves it; out [rows, n_heads * head_dim].
  virtual void attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg,
                      KvView kv, MatrixView out) = 0;

  /// top.row(r) = the top.count largest of row r, as TopLogits says; at most kMaxTopLogits.
  virtual void top_logits(ConstMatrixView logits, TopLogits top) = 0;

  /// listed.row(r)[i] = the logit of token ids[r, i] of row r, which becomes -infinity, so that
  /// top_logits() passes it over; -infinity where the id is -1. For the step's `listed` alone.
  /// logits [rows, n_vocab]; ids [rows, listed.count], each token at most once in a row.
  virtual void gather_logits(MatrixView logits, std::span<const int32_t> ids,
                             SelectedLogits selected);

  /// sums[r] of row r.
  virtual void log_sum_exp(ConstMatrixView logits, LogSumExp* sums);

  /// chosen[r] = the token that choices[r] chooses from top.row(r); -1 where the row's logits are
  /// not numbers, or all masked. For the step's `choices` alone.
  virtual void choose(TopLogits top, std::span<const TokenChoice> choices, int32_t* chosen);

  /// gate = silu(gate) ∘ up: the inner step of a dense feed-forward network. gate, up [rows, n_ff].
  virtual void silu_multiply(MatrixView gate, ConstMatrixView up) = 0;

  /// Softmax over all experts, the n_used largest, weights divided by their sum. logits [rows,
  /// n_experts].
  virtual void route(ConstMatrixView logits, Routing routing) = 0;

  /// Leaves out experts of decode rows: the first rank stays, and every further one while the
  /// weights before it, added up in rank order, are below top_p (below 1). The weights of those
  /// that stay are divided by their sum. Prefill rows keep all. classes [rows]. Adds what decode
  /// rows use to `use`, which lies in memory().
  virtual void keep_top_p(Routing routing, std::span<const RowClass> classes, float top_p,
                          ExpertUse* use);

  /// y += Σ_rank weight · down(silu(gate x) ∘ up x), summed in rank order, then +
  /// sigmoid(shared_gate) · the same of the shared expert (if any). x [rows, n_embd]; shared_gate
  /// [rows] raw; y [rows, n_embd].
  virtual void moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts,
                       const Routing& routing, const ExpertWeights* shared,
                       const float* shared_gate, MatrixView y) = 0;

 private:
  StepOutputs launched_;  ///< of launch_step(), which has computed them
};

/// The scalar oracle: simple, slow, the definition of every op's bits.
std::unique_ptr<Ops> make_ref_ops();

/// Instruction sets of the CPU implementation, slowest first (kAvx512: F, BW, DQ, VL and VNNI).
enum class CpuIsa { kGeneric, kAvx2, kAvx512 };
/// The best one that this program is compiled for and this processor runs (kernels/cpu/isa.h).
CpuIsa best_cpu_isa();
const char* cpu_isa_name(CpuIsa isa);

/// The CPU implementation. The pool must outlive it. `isa`: one of usable_cpu_isas().
std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool, CpuIsa isa = best_cpu_isa());

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_API_H_
