// What an instruction set provides for the ops that are not matrix products, each for the unit of
// work of one thread. Internal to CpuOps. Arguments are plain pointers and numbers: see cpu/simd.h.
#ifndef CHIMERE_KERNELS_CPU_VECTOR_KERNELS_H_
#define CHIMERE_KERNELS_CPU_VECTOR_KERNELS_H_

#include <cstdint>

namespace chimere::kernels::cpu {

/// Some channels of Ops::causal_conv, or one head's of Ops::gdn_conv, for the rows of one sequence.
struct ConvUnit {
  const float* weight = nullptr;  ///< [channels, taps]
  int taps = 0;
  int channels = 0;             ///< a multiple of 16
  const float* bias = nullptr;  ///< [channels]; nullptr: none
  bool silu = true;
  bool normalise = false;  ///< q and k heads
  float eps = 0;
  float* x = nullptr;  ///< the head in the first row
  int64_t x_stride = 0;
  int64_t n_rows = 0;
  const float* before = nullptr;  ///< the head in the oldest input of the state before
  float* slots = nullptr;         ///< the same in slot 0
  int64_t slot_stride = 0;
  int64_t tap_stride = 0;               ///< from one input of a state to the next
  const int32_t* write_slot = nullptr;  ///< [n_rows]
  const int32_t* keep_row = nullptr;    ///< [n_rows]; nullptr: none keeps its input
  float* rows = nullptr;                ///< the head in row block 0
  int64_t row_stride = 0;
};

/// One head's channels of the state of Ops::gdn_conv, into which rows are folded. `after` may be
/// `before`.
struct ConvFold {
  int past = 0;  ///< inputs of a state, at most 7
  int channels = 0;
  const float* before = nullptr;  ///< the head in the oldest input
  float* after = nullptr;
  int64_t tap_stride = 0;
  const float* rows = nullptr;  ///< the head in row block 0
  int64_t row_stride = 0;
  const int32_t* row_blocks = nullptr;  ///< [n_rows]
  int64_t n_rows = 0;
};

/// One row of one head of Ops::ssd_scan. `after` may be `before`.
struct SsdStep {
  int head_dim = 0;  ///< a multiple of 16
  int state_dim = 0;
  const float* before = nullptr;  ///< [state_dim, head_dim]
  float* after = nullptr;
  const float* u = nullptr;  ///< [head_dim] dt x
  const float* b = nullptr;  ///< [state_dim]
  float g = 0;
  // Of ssd_step alone:
  const float* c = nullptr;  ///< [state_dim]
  const float* x = nullptr;  ///< [head_dim]
  float d = 0;
  float* out = nullptr;  ///< [head_dim]
};

/// What the heads of one group share in a chunk of Ops::ssd_scan.
struct SsdProducts {
  int state_dim = 0;
  int n_rows = 0;
  const float* b = nullptr;  ///< [state_dim] of the first row; so is c
  const float* c = nullptr;
  int64_t stride = 0;
  float* bt = nullptr;  ///< [state_dim, 64]: B, transposed
  float* cb = nullptr;  ///< [64, 64]: the products of C_i and B_j
};
constexpr int64_t ssd_products_floats(int state_dim) {
  return 64 * static_cast<int64_t>(state_dim) + 64 * 64;
}

/// One head in one chunk of Ops::ssd_scan. `after` may be `before`.
struct SsdChunk {
  int head_dim = 0;  ///< a multiple of 16
  int state_dim = 0;
  int n_rows = 0;
  const float* bt = nullptr;  ///< of SsdProducts; so is cb
  const float* cb = nullptr;
  const float* x = nullptr;  ///< [head_dim] of the first row
  const float* c = nullptr;  ///< [state_dim] of the first row
  int64_t stride = 0;        ///< of x and c
  const float* dt = nullptr;
  int64_t dt_stride = 0;
  float dt_bias = 0;
  float a = 0;
  float d = 0;
  const float* before = nullptr;  ///< [state_dim, head_dim]
  float* after = nullptr;
  float* out = nullptr;  ///< [head_dim] of the first row
  int64_t out_stride = 0;
  float* scratch = nullptr;  ///< ssd_chunk_floats(head_dim)
};
constexpr int64_t ssd_chunk_floats(int head_dim) {
  return 2 * 64 * static_cast<int64_t>(head_dim) + 64 * 64;
}

/// One row of 16 channels of Ops::selective_scan. `after` may be `before`.
struct SelectiveStep {
  int state_dim = 0;
  const float* a = nullptr;       ///< [state_dim, 16]
  const float* before = nullptr;  ///< [state_dim, 16]
  float* after = nullptr;
  const float* dt = nullptr;  ///< [16] raw; of selective_fold dt itself
  const float* x = nullptr;   ///< [16]; of selective_fold dt x
  const float* b = nullptr;   ///< [state_dim]
  // Of selective_step alone:
  const float* dt_bias = nullptr;  ///< [16]
  const float* c = nullptr;        ///< [state_dim]
  const float* d = nullptr;        ///< [16]
  float* out = nullptr;            ///< [16]
  float* kept_dt = nullptr;        ///< [16]; nullptr: not kept
  float* kept_u = nullptr;         ///< [16] dt x, with kept_dt
};

/// The state of one v head of Ops::gdn_scan, into which rows are folded. `after` may be `before`.
struct ScanFold {
  int head_dim = 0;
  const float* before = nullptr;  ///< [head_dim (k), head_dim (v)]
  float* after = nullptr;
  const float* k = nullptr;  ///< the k head in row block 0; so are corrections and decay
  const float* corrections = nullptr;
  const float* decay = nullptr;
  int64_t row_stride = 0;
  const int32_t* row_blocks = nullptr;  ///< [n_rows]
  int64_t n_rows = 0;
};

/// Rows of one v head of Ops::gdn_scan: one decode row or a chunk. `after` may be `before`.
struct ScanUnit {
  int head_dim = 0;  ///< a multiple of 16
  int n_rows = 0;
  const float* q = nullptr;  ///< of the first row; so are k, v, alpha, beta and out
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t qkv_stride = 0;
  const float* alpha = nullptr;
  int64_t alpha_stride = 0;
  const float* beta = nullptr;
  int64_t beta_stride = 0;
  float a = 0;
  float dt_bias = 0;
  const float* before = nullptr;  ///< [head_dim (k), head_dim (v)]
  float* after = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0;
  float* kept_corrections =
      nullptr;                  ///< [head_dim] of a decode row to be folded; nullptr: not kept
  float* kept_decay = nullptr;  ///< with kept_corrections
  float* scratch = nullptr;     ///< scan_scratch_floats(head_dim)
};
/// Four matrices of a chunk's rows by head_dim and two of 64 x 64.
constexpr int64_t scan_scratch_floats(int head_dim) {
  return 4 * 64 * static_cast<int64_t>(head_dim) + 2 * 64 * 64;
}

/// Layout of one KV head's part of a page of 64 positions, for the vector loads of attention. f32,
/// f16 and bf16: keys [2][head_dim][32 positions], values [head_dim / 16][64 positions][16].
/// Quantised types in pieces of 32 elements, the f16 scales of a piece first:
///   keys    [2][head_dim / 32]: scales [32 positions], then q8_0 [32][32 positions] bytes, q4_0
///           [16][32 positions] bytes, each with elements 2 i (low half) and 2 i + 1
///   values  [head_dim / 32]: scales [64 positions], then q8_0 [64 positions][32] bytes, q4_0
///           [64 positions][16] bytes, each with elements i (low half) and i + 16
/// Levels are those of the formats (docs/formats.md): int8, and 4 bits with a bias of 8.
enum class KvType : int { kF32 = 0, kF16 = 1, kBF16 = 2, kQ8_0 = 3, kQ4_0 = 4 };
inline constexpr int kKvTypes = 5;
/// Ops::kv_layout(); raised when the layout changes.
inline constexpr uint32_t kKvLayout = 0x101;

/// RMS norm of a head, then rotation.
struct NormRope {
  const float* x = nullptr;
  float* y = nullptr;             ///< may be x
  const float* weight = nullptr;  ///< of the norm; nullptr: no norm
  float eps = 0;
  int head_dim = 0;
  int rope_dims = 0;
  const float* cos_sin = nullptr;  ///< [rope_dims / 2] cosines, then sines
  bool hadamard = false;           ///< then multiply by the Walsh-Hadamard matrix
};

/// Some queries of one sequence and one KV head against one split of the positions.
struct SplitUnit {
  int head_dim = 0;
  int n_queries = 0;                ///< at most kMaxQueries
  const float* const* q = nullptr;  ///< [n_queries]
  const int32_t* n_valid =
      nullptr;  ///< [n_queries] end of the split's positions visible to the query, 0 to 256
  /// [n_queries] the first visible position, less than n_valid where that is not 0.
  const int32_t* first_valid = nullptr;
  /// The KV head's keys in each page of the split; pages without a visible position are not read.
  const uint8_t* const* k = nullptr;
  const uint8_t* const* v = nullptr;
  int64_t k_bytes = 0;  ///< of one head's keys in a page
  int64_t v_bytes = 0;
  const uint8_t* const* next_k =
      nullptr;     ///< as k, for the split that the caller computes next (prefetch)
  int n_next = 0;  ///< its number of positions; 0: there is none
  float scale = 0;
  float* scores = nullptr;   ///< [n_queries, 256] scratch
  float* decoded = nullptr;  ///< decoded_floats(head_dim) of scratch
  /// [n_queries]: output of each query: maximum, sum, then head_dim values from kPartValues on. Not
  /// written where n_valid is 0.
  float* const* part = nullptr;
};
inline constexpr int kMaxQueries = 64;
inline constexpr int kPartValues = 16;
/// Space for keys or values of 32 positions or elements, decoded to f32.
constexpr int64_t decoded_floats(int head_dim) {
  const int64_t keys = 32 * static_cast<int64_t>(head_dim);
  constexpr int64_t kValues = 32 * 256;
  return keys > kValues ? keys : kValues;
}

/// Some queries of one head of one sequence of Ops::attend_sequences, against the whole sequence.
struct SequenceUnit {
  int head_dim = 0;          ///< a multiple of 16
  int n_rows = 0;            ///< of the sequence
  int first = 0;             ///< position of the first query
  int n_queries = 0;         ///< at most kMaxQueries
  const float* q = nullptr;  ///< the head in the first query's row, rotated
  int64_t q_stride = 0;
  const float* k = nullptr;  ///< the KV head in the sequence's first row, rotated
  int64_t k_stride = 0;
  const float* v = nullptr;  ///< the same
  int64_t v_stride = 0;
  float scale = 0;
  float slope = 0;           ///< 0: none
  int window = 0;            ///< 0: none
  float* scratch = nullptr;  ///< sequence_scratch_floats()
  float* out = nullptr;      ///< the head in the first query's row
  int64_t out_stride = 0;
};
/// Scores of kMaxQueries queries, and 16 transposed keys.
constexpr int64_t sequence_scratch_floats(int64_t n_rows, int64_t head_dim) {
  return (n_rows + 15) / 16 * 16 * kMaxQueries + 16 * head_dim;
}

/// One row of Ops::route; RoutingSpec in plain numbers.
struct RouteUnit {
  const float* logits = nullptr;  ///< [n_experts]
  int n_experts = 0;
  int n_used = 0;
  bool sigmoid = false;            ///< scores are sigmoids
  bool softmax = false;            ///< scores are the softmax; neither: the logits
  bool selects_by_logits = false;  ///< RoutingSpec::selects_by_logits()
  bool weighs_by_logits = false;   ///< RoutingSpec::weighs_by_logits()
  bool normalise = false;
  const float* bias = nullptr;
  int n_groups = 0;  ///< 0: none
  int n_groups_used = 0;
  float scale = 1;
  float* scratch = nullptr;  ///< route_scratch_floats(n_experts)
  int32_t* ids = nullptr;    ///< [n_used]
  float* weights = nullptr;  ///< [n_used]
};
inline constexpr int kMaxRouteGroups = 32;
constexpr int64_t route_scratch_floats(int n_experts) {
  return 2 * static_cast<int64_t>(n_experts);
}

/// Members have no initialisers: a constructor would be an inline function that every instruction
/// set defines.
struct VectorKernels {
  /// One row of n elements (any n).
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* y);
  /// One row of n elements (any n); bias may be nullptr.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                     float* y);
  /// One head of n elements (any n).
  void (*gated_rms_norm)(const float* x, const float* z, const float* weight, float eps, int64_t n,
                         float* y);
  void (*conv)(const ConvUnit&);
  void (*fold_conv)(const ConvFold&);
  void (*scan_step)(const ScanUnit&);
  void (*fold_scan)(const ScanFold&);
  void (*scan_chunk)(const ScanUnit&);
  void (*ssd_step)(const SsdStep&);
  void (*ssd_fold)(const SsdStep&);
  void (*ssd_products)(const SsdProducts&);
  void (*ssd_chunk)(const SsdChunk&);
  void (*selective_step)(const SelectiveStep&);
  void (*selective_fold)(const SelectiveStep&);
  void (*norm_rope)(const NormRope&);
  /// Writes one head's key or value to position `slot` of a page; may overwrite x. Values of
  /// quantised types are rotated first.
  void (*append_key[kKvTypes])(float* x, int head_dim, int slot, uint8_t* page);
  void (*append_value[kKvTypes])(float* x, int head_dim, int slot, uint8_t* page);
  /// The three phases of a split, in this order: scores; weights relative to the largest score (and
  /// each part's maximum and sum); weighted sums of the values.
  void (*score[kKvTypes])(const SplitUnit&);
  void (*weigh)(const SplitUnit&);
  void (*add_values[kKvTypes])(const SplitUnit&);
  /// Folds a query's part `next` into `all`.
  void (*fold_part)(const float* next, int head_dim, float* all);
  /// Folds a logit without a value into `all`.
  void (*fold_sink)(float sink, int head_dim, float* all);
  /// out = values / sum * sigmoid(gate), without the gate if it is nullptr; with `hadamard` the
  /// quotient is rotated back first.
  void (*finish_part)(const float* part, const float* gate, int head_dim, bool hadamard,
                      float* out);
  void (*attend_sequence)(const SequenceUnit&);
  void (*route)(const RouteUnit&);
};

namespace generic {
const VectorKernels& vector_kernels();
}
namespace avx2 {
const VectorKernels& vector_kernels();
}
namespace avx512 {
const VectorKernels& vector_kernels();
}
namespace neon {
const VectorKernels& vector_kernels();
}

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_VECTOR_KERNELS_H_
