// The op set: the operations that a model's forward pass is written in. Each op has a scalar oracle
// (ref/), a CPU implementation (cpu/) and a CUDA one (cuda/). All follow docs/numerics.md, which
// fixes the order of every sum, so that a row's result has the same bits in any batch, with any
// number of threads and on any instruction set.
//
// Ops are coarse, take a ragged batch of rows of many sequences at once, and know no model.
// Pointers are device memory. The model checks shapes when it is loaded; ops do not check them. Ops
// may use scratch memory of the Ops object, so only one call at a time is allowed per object.
#ifndef CHIMERE_KERNELS_API_H_
#define CHIMERE_KERNELS_API_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/activation.h"
#include "kernels/low_rank.h"
#include "kernels/routing.h"
#include "kernels/state_space.h"
#include "kernels/token_choice.h"
#include "tensor/memory.h"
#include "tensor/view.h"

namespace chimere::kernels {

/// Prefill rows of a chunk are computed together (chunked delta rule); a chunk is complete within
/// one step and its boundaries are a pure function of the token ids. Decode rows are computed one
/// after the other. A row's arithmetic depends only on its class and its token prefix.
enum class RowClass : int32_t { kPrefill = 0, kDecode = 1 };

/// Version of docs/numerics.md; part of the key of every stored state.
inline constexpr uint32_t kNumericsVersion = 4;

inline constexpr int kMaxChunkRows = 64;
inline constexpr int kKvPageTokens = 64;

/// Consecutive rows of one sequence: one whole chunk (at most kMaxChunkRows rows), or any number of
/// decode rows.
struct Slice {
  int32_t sequence = 0;  ///< index into the step's sequences
  int32_t row_begin = 0;
  int32_t row_count = 0;
  RowClass row_class = RowClass::kDecode;
};

/// The rows of a step. Rows of a sequence are contiguous and in order of position.
struct BatchView {
  int32_t n_rows = 0;
  int32_t n_sequences = 0;
  std::span<const Slice> slices;             ///< ordered by sequence, then position
  std::span<const int32_t> sequence_slices;  ///< [n_sequences + 1]: first slice of each sequence
  std::span<const int32_t> row_sequence;     ///< [n_rows]
  std::span<const int32_t> row_position;     ///< [n_rows], from 0
  /// [n_rows]: row r attends to positions [0, row_visible[r]), at least one, which an earlier step
  /// or this one appends; within a sequence not falling. Rows of a block that attend to each other
  /// all have the block's end. Empty: row_position[r] + 1 each.
  std::span<const int32_t> row_visible;
  std::span<const int32_t> read_slot;  ///< [n_sequences] recurrent state before the first row
  std::span<const int32_t>
      write_slot;  ///< [n_rows] where the state after that row goes; -1: nowhere.
                   ///  In a chunk only the last row may have one. May equal read_slot.
  /// Row blocks of the sequences' unfolded rows, one list after the other. The op that uses a
  /// recurrent state first stores in read_slot the state of fold_from with these rows folded in:
  /// the bits of having computed the rows there. No other sequence uses read_slot then. With
  /// read_slot -1 only shift_rows() is possible, which stores nothing.
  std::span<const int32_t> fold_rows = {};
  std::span<const int32_t> fold_begin = {};  ///< [n_sequences + 1] into fold_rows; empty: no rows
  std::span<const int32_t> fold_from = {};   ///< [n_sequences], -1 where there is nothing to fold
  /// [n_rows] row block where that decode row stores what folding needs; -1: none. Empty: no rows.
  std::span<const int32_t> keep_row = {};
  std::span<const int32_t>
      page_table;  ///< KV page numbers, the sequences' lists one after the other
  /// [page groups, n_sequences] start of each sequence's list in page_table, which has a list for
  /// each group (KvView::group). In the lists of layers with a window, pages before the window may
  /// have any number.
  std::span<const int32_t> page_begin;
  /// [n_sequences], distinct, or empty: identifies a sequence among all steps, so that its page
  /// list may be kept between them. Lists with the same key agree in all pages that are full before
  /// the first rows of both steps.
  std::span<const uint64_t> sequence_keys = {};

  /// The row blocks to fold for a sequence, in order.
  std::span<const int32_t> unfolded(int64_t sequence) const {
    if (fold_begin.empty()) return {};
    const auto begin = static_cast<size_t>(fold_begin[static_cast<size_t>(sequence)]);
    const auto end = static_cast<size_t>(fold_begin[static_cast<size_t>(sequence) + 1]);
    return fold_rows.subspan(begin, end - begin);
  }
  int32_t keep(int64_t row) const {
    return keep_row.empty() ? -1 : keep_row[static_cast<size_t>(row)];
  }
  /// The end of the positions that row r attends to.
  int32_t visible(int64_t r) const {
    const auto row = static_cast<size_t>(r);
    return row_visible.empty() ? row_position[row] + 1 : row_visible[row];
  }
  /// The first position that row r attends to in a layer with this window.
  int32_t first_visible(int64_t r, int32_t window) const {
    const int32_t position = row_position[static_cast<size_t>(r)];
    return window > 0 && position >= window ? position + 1 - window : 0;
  }
  /// Where the list of pages of a sequence begins in page_table.
  int32_t pages_of(int64_t sequence, int32_t group) const {
    return page_begin[static_cast<size_t>(group) * static_cast<size_t>(n_sequences) +
                      static_cast<size_t>(sequence)];
  }
};

/// A token and its logit.
struct TopLogit {
  float value = 0;
  int32_t id = 0;
};

/// The largest logits of each row, [rows, count], in falling order, ties by rising id. Tokens at
/// -infinity are excluded; unused places have id -1 and value -infinity. A row with a NaN or
/// +infinity has id -1 and value +infinity in its first place.
struct TopLogits {
  TopLogit* data = nullptr;
  int64_t rows = 0;
  int32_t count = 0;

  std::span<TopLogit> row(int64_t r) const {
    return {data + r * count, static_cast<size_t>(count)};
  }
};
inline constexpr int32_t kMaxTopLogits = 128;

/// A set of tokens: bit t % 32 of word t / 32 says whether it contains token t.
using TokenMask = std::span<const uint32_t>;
/// Words of a set of tokens.
constexpr int64_t mask_words(int64_t n_vocab) { return (n_vocab + 31) / 32; }
constexpr bool contains(TokenMask mask, int32_t token) {
  const auto t = static_cast<uint32_t>(token);
  return t / 32 < mask.size() && (mask[t / 32] >> (t % 32) & 1U) != 0;
}

/// Gathered logits of selected tokens of each row, [rows, count].
struct SelectedLogits {
  float* data = nullptr;
  int64_t rows = 0;
  int32_t count = 0;

  std::span<float> row(int64_t r) const { return {data + r * count, static_cast<size_t>(count)}; }
};
inline constexpr int32_t kMaxSelectedLogits = 1024;

/// The token that `choice` chooses from a row's largest logits; -1 if there is none.
int32_t choose_token(std::span<const TopLogit> largest, const TokenChoice& choice);

/// Log-sum-exp statistics of a row, from which the softmax's denominator and entropy follow: with x
/// = logit - largest, over all logits that are not -infinity, the sums of e^x and of x e^x, in the
/// order of docs/numerics.md ("log_sum_exp"). If all logits are -infinity: largest = -infinity and
/// sums of 0. Undefined if a logit is +infinity or NaN.
struct LogSumExp {
  double e = 0;
  double xe = 0;
  float largest = 0;
};

/// The results of a step: all logits of some rows; for other rows the largest logits and what else
/// was requested.
struct StepOutputs {
  ConstMatrixView logits;
  TopLogits top;
  SelectedLogits selected = {};  ///< rows of `top`, or none
  LogSumExp* sums = nullptr;     ///< [top.rows]; nullptr: not requested
  int32_t* chosen = nullptr;     ///< [top.rows] tokens; nullptr: not requested
};

/// The inputs of a step that the host knows.
struct StepInputs {
  BatchView batch;
  std::span<const int32_t> tokens;       ///< [n_rows]; -1: the row has a vector
  ConstMatrixView vectors = {};          ///< as in Ops::embed; none with async_from
  std::span<const int32_t> wanted_rows;  ///< rows of the step whose logits are requested
  std::span<const int32_t>
      selected;  ///< [top.rows, StepOutputs::selected.count] token ids; -1: none
  /// [top.rows, mask_words(n_vocab)]: Ops::top_logits() considers only these tokens of each row;
  /// empty: all.
  TokenMask masks = {};
  int32_t pass =
      0;  ///< identifies the caller's pass function: passes with the same number issue the same ops
  std::span<const TokenChoice> choices = {};  ///< for StepOutputs::chosen
  /// [n_rows]: the row's token is async_token_from[async_from[row]], or ~async_from[row] if that is
  /// negative; empty: it is tokens[row].
  std::span<const int32_t> async_from = {};
  const int32_t* async_token_from =
      nullptr;                ///< StepOutputs::chosen of the step before, in memory()
  RowAdapters adapters = {};  ///< which adapters linear() and moe_ffn() apply to each row
};

/// Fixed-size state of one layer for many sequences: slot s starts at base + s * slot_stride, in
/// floats; what row block b keeps for the layer, at rows + b * row_stride.
struct RecurrentView {
  float* base = nullptr;
  int64_t slot_stride = 0;
  float* rows = nullptr;  ///< nullptr: no batch folds or keeps rows
  int64_t row_stride = 0;

  float* slot(int64_t s) const { return base + s * slot_stride; }
  float* row(int64_t b) const { return rows + b * row_stride; }
};

/// Shape of a gated delta-net layer. q, k and v heads have `head_dim` elements (a multiple of 16,
/// at most 256). conv_kernel is 2 to 8.
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
  /// What a row keeps to be folded: gdn_conv its input [conv_dim], ...
  int64_t conv_row_floats() const { return conv_dim(); }
  /// ... gdn_scan its k [key_dim], the corrections beta' (v − kᵀ S) [value_dim] and the decays g
  /// [n_v_heads], so that S = g S + k ⊗ correction.
  int64_t scan_row_floats() const { return int64_t{key_dim()} + value_dim() + n_v_heads; }
};

/// Weights and states of a gated delta-net layer: see Ops::gdn_conv, Ops::gdn_scan and
/// Ops::gated_rms_norm.
struct GdnOperands {
  const float* conv_weight = nullptr;
  RecurrentView conv_state;
  const float* a = nullptr;
  const float* dt_bias = nullptr;
  RecurrentView scan_state;
  const float* norm = nullptr;
  float eps = 0;  ///< of all norms of the layer
};

/// n_heads is a multiple of n_kv_heads, head_dim a multiple of 16.
struct AttentionShape {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int rope_dims = 0;  ///< the first rope_dims elements of a head are rotated, pairs (i, i +
                      ///  rope_dims / 2); 0: none
  float rope_base = 1e7F;
  /// [rope_dims / 2] divisors of the frequencies, in host memory; nullptr: all 1.
  const float* rope_factors = nullptr;
  float scale = 0;    ///< of the scores, usually 1 / sqrt(head_dim)
  bool gated = true;  ///< every head has an output gate, stored after its query
  /// A row attends to its own position and the window - 1 before it (and to what follows it, where
  /// BatchView::row_visible says so); 0: to all positions before it.
  int window = 0;
  /// [n_heads] attention sinks (Xiao et al. 2023, arXiv:2309.17453), in Ops::memory(): a logit of
  /// each head that takes part in the softmax and has no value; nullptr: none.
  const float* sinks = nullptr;

  /// Distance from one head's query to the next, in floats.
  int query_stride() const { return gated ? 2 * head_dim : head_dim; }
};

/// Attention without a causal mask and without a cache, as encoders have it. See
/// Ops::attend_sequences.
struct SequenceAttentionShape {
  AttentionShape heads;  ///< without gates; head_dim is at most kMaxSequenceHeadDim
  int window = 0;        ///< a position sees those at most this far away, on both sides; 0: all
  /// [n_heads] in Ops::memory(): a score loses slope · distance (ALiBi, Press et al. 2021,
  /// arXiv:2108.12409); nullptr: nothing.
  const float* alibi_slopes = nullptr;
};
inline constexpr int kMaxSequenceHeadDim = 128;

/// Paged keys and values of one layer: page p starts at base + p * page_bytes and holds
/// kKvPageTokens positions. The layout inside a page is private to the implementation. Pools
/// interleave layers, so page_bytes is a stride, at least Ops::kv_page_bytes(). Both types satisfy
/// is_kv_type(). Heads of quantised keys or values are stored rotated: docs/numerics.md, "Rotated
/// heads".
struct KvView {
  uint8_t* base = nullptr;
  int64_t page_bytes = 0;
  DType k_type = DType::kF16;
  DType v_type = DType::kF16;
  int32_t group = 0;  ///< which of a sequence's page lists (BatchView::page_begin) the layer uses
};

/// f32, f16, bf16, q8_0 and q4_0. For the last two, head_dim must be a multiple of their block of
/// 32.
constexpr bool is_kv_type(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || t == DType::kQ8_0 ||
         t == DType::kQ4_0;
}

/// The rows of a step that a matrix of activations has: all of them, or those that were compacted
/// by Ops::select_rows().
enum class StepRows : uint8_t { kAll, kWanted };

/// Activations that products read. An implementation converts them (rounds them to int8 blocks or
/// to f16) at most once for all products of an operand that prepare() or another op returned; a
/// plain matrix is converted by each product that takes it. Usable until the pass ends, while the
/// contents of `x` are what they were when the operand was made.
struct Operand {
  // NOLINTBEGIN(google-explicit-constructor): an operand with one product is written as a matrix
  Operand(ConstMatrixView m, StepRows of = StepRows::kAll, uint64_t number = 0)
      : x(m), rows(of), id(number) {}
  Operand(const MatrixView& m, StepRows of = StepRows::kAll) : Operand(ConstMatrixView(m), of) {}
  // NOLINTEND(google-explicit-constructor)

  ConstMatrixView x;  ///< [rows, n]
  StepRows rows;
  uint64_t id;  ///< of the implementation's conversions; 0: they are not kept
};

struct LinearJob {
  WeightView w;             ///< [n_out, n_in]
  MatrixView y;             ///< [rows, n_out]
  bool accumulate = false;  ///< y += W x instead of y = W x (the residual stream)
  float scale = 1;          ///< of the product: y = scale (W x), or y += scale (W x)
};

/// A feed-forward network down(f(gate x) ∘ up x), or without a gate down(f(up x)); with
/// kClampedSwiglu down(f(gate x, up x)). Each product of a routed expert may have a bias.
struct ExpertWeights {
  WeightView gate;                   ///< [n_ff, n_embd], or empty
  WeightView up;                     ///< [n_ff, n_embd]
  WeightView down;                   ///< [n_embd, n_ff]
  const float* gate_bias = nullptr;  ///< [n_ff]; nullptr: none
  const float* up_bias = nullptr;    ///< [n_ff]
  const float* down_bias = nullptr;  ///< [n_embd]

  bool gated() const { return gate.n_out > 0; }
};

class Ops;
/// Replaces an expert's biases by those that Ops::place_floats() returns. Errors: its errors.
Status place_biases(Ops& ops, ExpertWeights& expert);

/// Where a layer's routed experts are stored: in Ops::memory(), or in host memory because a GPU's
/// is too small for them. Results do not depend on it.
enum class ExpertPlacement : uint8_t { kDevice, kHost };

/// A layer's experts where ops read them, made by Ops::place_experts(). Only for ops of the same
/// object, which must outlive it.
struct PlacedExperts {
  PlacedExperts(std::vector<ExpertWeights> r, std::optional<ExpertWeights> s)
      : routed(std::move(r)), shared(s) {}
  virtual ~PlacedExperts() = default;
  PlacedExperts(const PlacedExperts&) = delete;
  PlacedExperts& operator=(const PlacedExperts&) = delete;

  std::vector<ExpertWeights> routed;  ///< [n_experts]
  std::optional<ExpertWeights> shared;
};

/// An embedding table that embed() reads, made by Ops::place_table(). Only for ops of the same
/// object, which must outlive it.
struct PlacedTable {
  explicit PlacedTable(const WeightView& t) : table(t) {}
  virtual ~PlacedTable() = default;
  PlacedTable(const PlacedTable&) = delete;
  PlacedTable& operator=(const PlacedTable&) = delete;

  WeightView table;  ///< [n_vocab, n_embd], in host memory, in the file's format
};

/// Options of Ops::moe_ffn.
struct MoeOptions {
  Activation activation = Activation::kSilu;
  float scale = 1;  ///< of the sum over all experts
};

class Ops {
 public:
  virtual ~Ops() = default;

  /// The memory of states, activations and placed weights: the host's unless an implementation
  /// overrides it.
  virtual Memory& memory() { return host_memory(); }

  /// Copies a weight matrix from host memory to where this object's ops read it; by default returns
  /// the same view. A placed view may be truncated after any row, but must start at row 0. Errors:
  /// kOutOfMemory, kIo.
  virtual Result<WeightView> place(const WeightView& w) { return w; }
  /// The same for n floats that ops read directly (norms, convolutions, biases).
  virtual Result<const float*> place_floats(const float* values, int64_t n);
  /// The same for a layer's experts. The host memory of experts with kHost must remain valid.
  virtual Result<std::unique_ptr<PlacedExperts>> place_experts(std::vector<ExpertWeights> routed,
                                                               std::optional<ExpertWeights> shared,
                                                               ExpertPlacement where);
  /// The same for an embedding table. The host memory of the table must remain valid.
  virtual Result<std::unique_ptr<PlacedTable>> place_table(const WeightView& table);
  /// Whether ops still read host memory that was given to the functions above: the caller must then
  /// check that it has not changed (a mapped file) before it uses a step's results.
  virtual bool reads_host_weights() const { return true; }

  /// Makes an adapter available to steps; returns its number, which drop_adapter() may free for
  /// another one. Host memory of its matrices must remain valid until then. At most kMaxAdapters at
  /// a time. No step may be in flight. Errors: kInvalidArgument (too many), kUnsupported (an
  /// adapter of experts without adapts_experts()), kOutOfMemory, kIo.
  virtual Result<int32_t> place_adapter(LowRankAdapter adapter);
  virtual void drop_adapter(int32_t number) { adapters_.drop(number); }
  /// Whether moe_ffn() applies adapters.
  virtual bool adapts_experts() const { return true; }

  /// Starts a step. `pass` issues its ops in an order that depends only on step.pass and the
  /// numbers of rows, sequences and requested rows, with the same addresses whenever these are
  /// equal. An implementation may capture the ops (a CUDA graph) and replay them for a later step
  /// with the same key, without calling `pass`. If supports_overlap(), a second step may be
  /// launched before the first is waited for; it runs after it, on the same memory. Errors: kIo,
  /// kOutOfMemory: discard the states of the step's sequences.
  virtual Status launch_step(const StepInputs& step, const StepOutputs& outputs,
                             const std::function<void()>& pass);
  /// Waits for the oldest launched step. Returns its `outputs` in host memory, valid until the
  /// launch after the next. Errors: those of launch_step() that it did not report.
  virtual Result<StepOutputs> wait_for_step();
  /// launch_step() and wait_for_step(); no other step may be in flight.
  Result<StepOutputs> run_step(const StepInputs& step, const StepOutputs& outputs,
                               const std::function<void()>& pass);
  /// Call it inside a pass with prefill rows, which is never captured: waits for the ops that the
  /// pass has issued, then `steps` may compute other steps. Errors: kIo.
  virtual Status interleaved_step(const std::function<void()>& steps);
  /// Whether interleaved_step() is supported.
  virtual bool can_interleave() const { return true; }
  /// Whether StepInputs::async_from is supported, for the tables and experts placed so far.
  virtual bool supports_overlap() const { return false; }
  /// Steps so far that took longer than further ones with their key will, because they allocated
  /// memory or were captured.
  virtual int64_t first_steps() const { return 0; }

  /// An operand that several products read. `rows`: which rows of the step x has.
  virtual Operand prepare(ConstMatrixView x, StepRows rows) { return {x, rows}; }

  /// Compacts x, which has all rows of the step, to `rows`, in their order. Only for the step's
  /// wanted_rows: y has StepRows::kWanted.
  virtual void select_rows(ConstMatrixView x, std::span<const int32_t> rows, MatrixView y);

  /// y[r] = the row of x before r in its sequence; for a sequence's first row, the state before it.
  /// x[r] becomes the state after row r if that has a write slot, and is kept in its row block. x,
  /// y [rows, n] must not overlap; state and kept row [n].
  virtual void shift_rows(const BatchView& batch, ConstMatrixView x, RecurrentView state,
                          MatrixView y);

  /// y[r] = row tokens[r] of the table, decoded to f32, or for the i-th row whose token is -1 row i
  /// of `vectors`, bit for bit; for the step's tokens (or async tokens) and vectors. y [rows,
  /// n_in], contiguous; vectors [number of tokens -1, n_in], in host memory.
  virtual void embed(const PlacedTable& table, std::span<const int32_t> tokens,
                     ConstMatrixView vectors, MatrixView y) = 0;

  /// y = x / sqrt(mean(x²) + eps) * weight, per row. x, y [rows, n]; y may be x. Returns y, which
  /// has the rows `rows` of the step, as an operand.
  virtual Operand rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y,
                           StepRows rows) = 0;

  /// y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, per row (Ba et al. 2016,
  /// arXiv:1607.06450). bias may be nullptr: none. Else as rms_norm().
  virtual Operand layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps,
                             MatrixView y, StepRows rows);

  /// x *= factor, element by element. x [rows, n].
  virtual void scale(MatrixView x, float factor);

  /// y += bias, row by row. y [rows, n]; bias [n].
  virtual void add_bias(MatrixView y, const float* bias);

  /// y = x; rows of both may be parts of wider rows, and must not overlap. x, y [rows, n].
  virtual void copy(ConstMatrixView x, MatrixView y);

  /// y *= x, element by element. x, y [rows, n].
  virtual void multiply(ConstMatrixView x, MatrixView y);

  /// rms_norm() of every `group` consecutive elements of a row. x, y [rows, n], n a multiple of
  /// group; weight [n]; y may be x.
  virtual void group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                              MatrixView y);
  /// z = group_rms_norm(silu(z) * x). x, z [rows, n], all rows of the step. Returns z as an
  /// operand.
  virtual Operand gated_group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                                       MatrixView z);

  /// Every job's y = W x (or y += W x) for the same x [rows, n_in]. Quantised weights are
  /// multiplied with activations rounded once to int8 blocks of 32 with an f32 scale; float weights
  /// with f32 activations. Rows with adapters of a job's target then get y += scale · B (A x).
  virtual void linear(const Operand& x, std::span<const LinearJob> jobs) = 0;

  /// Causal depthwise convolution over time, then SiLU, then L2 normalisation of the q and k heads.
  /// qkv [rows, conv_dim] in place: q heads, k heads, v heads. weight f32 [conv_dim, conv_kernel].
  /// State: the last conv_kernel - 1 inputs, [conv_kernel - 1, conv_dim], oldest first. Kept row:
  /// conv_row_floats().
  virtual void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight,
                        float eps, RecurrentView state, MatrixView qkv) = 0;

  /// Gated delta rule (Yang et al. 2024, arXiv:2412.06464), per v head, with q scaled by
  /// 1/sqrt(head_dim):
  ///   g = exp(a * softplus(alpha + dt_bias)), beta' = sigmoid(beta)
  ///   S = g S;  S += k ⊗ (beta' (v − kᵀ S));  out = qᵀ S
  /// qkv as gdn_conv leaves it; alpha, beta [rows, n_v_heads] raw projections; a (negative),
  /// dt_bias [n_v_heads]; state [n_v_heads, head_dim (k), head_dim (v)]; kept row
  /// scan_row_floats(); out [rows, value_dim].
  virtual void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                        ConstMatrixView alpha, ConstMatrixView beta, const float* a,
                        const float* dt_bias, RecurrentView state, MatrixView out) = 0;

  /// Per head of `head_dim`: y = x / sqrt(mean(x²) + eps) * weight[head_dim] * silu(z). y may be x.
  virtual void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight,
                              int head_dim, float eps, MatrixView y) = 0;

  /// gdn_conv, gdn_scan and gated_rms_norm (with the gate z) of a layer, fused; the contents of qkv
  /// are undefined afterwards. Returns `out` as an operand.
  virtual Operand gdn_mix(const BatchView& batch, const GdnShape& shape,
                          const GdnOperands& operands, MatrixView qkv, ConstMatrixView alpha,
                          ConstMatrixView beta, ConstMatrixView z, MatrixView out);

  /// Causal depthwise convolution over time, then SiLU if the shape says so. x [rows, channels] in
  /// place; weight f32 [channels, taps]; bias [channels], or nullptr: none. State: the last taps -
  /// 1 inputs, oldest first, [taps - 1, channels]. Kept row: the input.
  virtual void causal_conv(const BatchView& batch, const ConvShape& shape, const float* weight,
                           const float* bias, RecurrentView state, MatrixView x);

  /// State-space duality (Mamba 2, Dao and Gu 2024, arXiv:2405.21060), per head, with the B and C
  /// of the head's group:
  ///   dt = softplus(dt_raw + dt_bias), g = exp(dt a)
  ///   S = g S + B ⊗ (dt x);  out = Cᵀ S + d x
  /// xbc [rows, conv_dim()]: x heads, B groups, C groups; dt [rows, n_heads] raw; state [n_heads,
  /// state_dim, head_dim]; kept row row_floats(); out [rows, inner()]. Chunks are computed by
  /// matrix products.
  virtual void ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                        ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state,
                        MatrixView out);

  /// Selective scan (Mamba, Gu and Dao 2023, arXiv:2312.00752), per channel:
  ///   dt = softplus(dt_raw + dt_bias), S_n = exp(dt a_n) S_n + B_n (dt x);  out = Σ_n C_n S_n + d
  ///   x
  /// x, dt [rows, channels]; b, c [rows, state_dim]; state [channels / 16, state_dim, 16]; kept row
  /// row_floats(); out [rows, channels]. Prefill rows have the arithmetic of decode rows.
  virtual void selective_scan(const BatchView& batch, const SelectiveShape& shape,
                              const SelectiveWeights& weights, const SelectiveInputs& inputs,
                              RecurrentView state, MatrixView out);

  /// Bytes of one KV page of one layer (a multiple of 64).
  virtual int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) const = 0;

  /// Identifies the byte layout of a KV page in this implementation, and its own arithmetic for
  /// chunks where that differs; part of the key of every stored state.
  virtual uint32_t kv_layout() const = 0;

  /// RMS-normalises every q and k head (weights q_norm, k_norm [head_dim]; nullptr: not
  /// normalised), rotates them by their position, and appends k and v to the pages. Keys, with the
  /// queries, and values of quantised types are rotated once more, by a Walsh-Hadamard matrix, so
  /// that outliers spread over the head. qg [rows, n_heads * query_stride()]: per head the query,
  /// then its output gate if the shape has gates; the queries are changed in place. k, v [rows,
  /// n_kv_heads * head_dim].
  virtual void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape,
                                   const float* q_norm, const float* k_norm, float eps,
                                   MatrixView qg, ConstMatrixView k, ConstMatrixView v,
                                   KvView kv) = 0;

  /// Attention of every row r over positions [batch.first_visible(r, shape.window),
  /// batch.visible(r)), with the sinks if the shape has them, times sigmoid(gate) if it has gates.
  /// qg as qk_norm_rope_append leaves it; out [rows, n_heads * head_dim], all rows of the step.
  /// Returns `out` as an operand.
  virtual Operand attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg,
                         KvView kv, MatrixView out) = 0;

  /// Rotates every head of q and k by its position, in place, then lets every row attend to the
  /// rows of its sequence in this step, as `shape` says. Each sequence has all its positions in the
  /// step, from 0 on, and batch.visible() is their number for each of its rows. q, out [rows,
  /// n_heads * head_dim]; k, v [rows, n_kv_heads * head_dim].
  virtual void attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape,
                                MatrixView q, MatrixView k, ConstMatrixView v, MatrixView out);

  /// top.row(r) = the top.count (at most kMaxTopLogits) largest logits of row r, as TopLogits says.
  /// `masks`: empty, or the step's `masks`, [top.rows, mask_words(logits.cols)]; tokens outside a
  /// row's set are excluded, but a NaN or +infinity is reported wherever it is.
  virtual void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) = 0;

  /// selected.row(r)[i] = the logit of token ids[r, i] of row r, -infinity where the id is -1. That
  /// logit then becomes -infinity in `logits`, so that top_logits() excludes it. Only for the
  /// step's `selected`. logits [rows, n_vocab]; ids [rows, selected.count], without duplicates in a
  /// row.
  virtual void gather_logits(MatrixView logits, std::span<const int32_t> ids,
                             SelectedLogits selected);

  /// sums[r] = the statistics of row r.
  virtual void log_sum_exp(ConstMatrixView logits, LogSumExp* sums);

  /// chosen[r] = the token that choices[r] chooses from top.row(r); -1 if the row has a NaN or
  /// +infinity, or all its logits are masked. Only for the step's `choices`.
  virtual void choose(TopLogits top, std::span<const TokenChoice> choices, int32_t* chosen);

  /// h = f(h) ∘ up (or f(h, up)), or h = f(h) if up.data is nullptr: the inner step of a dense
  /// feed-forward network with or without a gate. h, up [rows, n_ff]. Returns h, which has the rows
  /// `rows` of the step, as an operand.
  virtual Operand activate(Activation f, MatrixView h, ConstMatrixView up, StepRows rows) = 0;

  /// Selects experts and their weights for each row, as `spec` says. logits [rows, n_experts].
  virtual void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing) = 0;

  /// Skips experts of decode rows, for routings whose weights sum to 1: rank 0 stays, and each
  /// further rank while the sum of the weights before it, in rank order, is below top_p (which is
  /// below 1). The remaining weights are divided by their sum. Prefill rows keep all. classes
  /// [rows], of the rows `rows` of the step. Adds the decode rows' counts to `use`, which lies in
  /// memory().
  virtual void keep_top_p(Routing routing, StepRows rows, std::span<const RowClass> classes,
                          float top_p, ExpertUse* use);

  /// y += scale · (Σ_rank weight · e_rank(x) + sigmoid(shared_gate) · e_shared(x)), summed in this
  /// order, where e(x) is the output of an expert (ExpertWeights). x [rows, n_embd]; shared_gate
  /// [rows] raw, or nullptr: the shared expert, if any, has weight 1; y [rows, n_embd].
  virtual void moe_ffn(const Operand& x, const PlacedExperts& experts, const Routing& routing,
                       const float* shared_gate, const MoeOptions& options, MatrixView y) = 0;

 protected:
  StepAdapters adapters_;

 private:
  StepOutputs launched_;  ///< of launch_step(), which has already computed them
};

/// The scalar oracle: simple and slow; defines every op's bits.
std::unique_ptr<Ops> make_ref_ops();

/// Instruction sets of the CPU implementation, slowest first (kAvxVnni: AVX2 with byte dot
/// products; kAvx512: F, BW, DQ, VL and VNNI; of 64-bit ARM: kNeon on any, kDotprod with byte dot
/// products, kI8mm with byte matrix products too).
enum class CpuIsa { kGeneric, kAvx2, kAvxVnni, kAvx512, kNeon, kDotprod, kI8mm };
/// The best one that this program is compiled for and this processor supports (kernels/cpu/isa.h).
CpuIsa best_cpu_isa();
const char* cpu_isa_name(CpuIsa isa);
/// Whether the kernels of `isa` take weights of type kIQ3_S_UNPACKED, which unpacked_iq3_s.h
/// describes, and are faster with them than with IQ3_S.
bool gains_from_unpacking(CpuIsa isa);

/// What place_experts() needs to unpack experts.
struct Unpacking {
  /// Copies weights from `from`, where a WeightView has them. Any thread; an error fails the layer.
  std::function<Status(const uint8_t* from, std::span<uint8_t> to)> read;
  /// Called for each layer whose experts were unpacked, with the bytes that they take now.
  std::function<void(int64_t bytes)> done;
};

/// The CPU implementation. The pool must outlive it. `isa`: one of usable_cpu_isas(). With
/// `unpacking`, place_experts() copies experts of IQ3_S with their codebook looked up where the
/// kernels of `isa` gain from it (kernels/cpu/unpacked_iq3_s.h); the results are the same bits.
std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool, CpuIsa isa = best_cpu_isa(),
                                  std::optional<Unpacking> unpacking = {});

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_API_H_
