#include "kernels/cpu/attention.h"

#include <algorithm>
#include <array>

#include "kernels/attention_rules.h"
#include "kernels/cpu/for_units.h"

namespace chimere::kernels::cpu {
namespace {

constexpr int kPagesPerSplit = kAttentionSplit / kKvPageTokens;
/// Above this, the splits of a block are computed one after the other and their parts are not kept:
/// a prompt far into a long context has enough parallel work without them.
constexpr int64_t kMaxPartFloats = 4 << 20;

KvType kv_type(DType t) {
  switch (t) {
    case DType::kF16:
      return KvType::kF16;
    case DType::kBF16:
      return KvType::kBF16;
    case DType::kQ8_0:
      return KvType::kQ8_0;
    case DType::kQ4_0:
      return KvType::kQ4_0;
    default:
      return KvType::kF32;
  }
}

/// Offsets of the heads within a page.
struct PageLayout {
  KvType k_type;
  KvType v_type;
  int64_t k_head_bytes;
  int64_t v_head_bytes;
  int64_t v_begin;

  PageLayout(const AttentionShape& shape, DType k, DType v)
      : k_type(kv_type(k)),
        v_type(kv_type(v)),
        k_head_bytes(kKvPageTokens * row_bytes(k, shape.head_dim)),
        v_head_bytes(kKvPageTokens * row_bytes(v, shape.head_dim)),
        v_begin(shape.n_kv_heads * k_head_bytes) {}

  int64_t key(int head) const { return head * k_head_bytes; }
  int64_t value(int head) const { return v_begin + head * v_head_bytes; }
};

}  // namespace

int64_t Attention::page_bytes(const AttentionShape& shape, DType k_type, DType v_type) {
  const PageLayout layout(shape, k_type, v_type);
  return layout.value(shape.n_kv_heads);
}

void Attention::append(const BatchView& batch, const AttentionShape& shape, const float* q_norm,
                       const float* k_norm, float eps, MatrixView qg, ConstMatrixView k,
                       ConstMatrixView v, const KvView& kv) {
  const int n = shape.head_dim;
  const PageLayout layout(shape, kv.k_type, kv.v_type);
  const auto append_key = kernels_.append_key[static_cast<int>(layout.k_type)];
  const auto append_value = kernels_.append_value[static_cast<int>(layout.v_type)];
  const bool rotates = shape.rope_dims > 0;
  if (rotates)
    rope_.prepare(batch.row_position, shape.rope_dims, shape.rope_base, shape.rope_factors);
  const int heads = shape.n_heads + shape.n_kv_heads;
  const int64_t units = static_cast<int64_t>(batch.n_rows) * heads;
  for_units(pool_, units, units * n / 3, [&](int64_t i, int worker) {
    const int64_t row = i / heads;
    NormRope u;
    u.eps = eps;
    u.head_dim = n;
    u.rope_dims = shape.rope_dims;
    u.cos_sin = rotates ? rope_.row(row) : nullptr;
    u.hadamard = dtype_info(kv.k_type).quantised;
    if (i % heads < shape.n_heads) {
      u.y = qg.row(row) + i % heads * shape.query_stride();
      u.x = u.y;
      u.weight = q_norm;
      kernels_.norm_rope(u);
      return;
    }
    const int head = static_cast<int>(i % heads) - shape.n_heads;
    u.x = k.row(row) + static_cast<int64_t>(head) * n;
    u.y = scratch_.get(worker, n);
    u.weight = k_norm;
    kernels_.norm_rope(u);
    const int32_t position = batch.row_position[row];
    const int32_t first_page = batch.pages_of(batch.row_sequence[row], kv.group);
    uint8_t* page =
        kv.base + batch.page_table[first_page + position / kKvPageTokens] * kv.page_bytes;
    append_key(u.y, n, position % kKvPageTokens, page + layout.key(head));
    std::copy_n(v.row(row) + static_cast<int64_t>(head) * n, n, u.y);
    append_value(u.y, n, position % kKvPageTokens, page + layout.value(head));
  });
}

int32_t Attention::row_of(const Call& call, const Block& block, int query) {
  return block.row_begin + (block.first_query + query) / call.group;
}

/// End of the positions of a split visible to a query, 0 if there is none.
int Attention::visible(const Call& call, const Block& block, int query, int64_t split) {
  const int64_t seen = call.batch.visible(row_of(call, block, query));
  if (split < first_split(call, block, query)) return 0;
  return static_cast<int>(std::clamp<int64_t>(seen - split * kAttentionSplit, 0, kAttentionSplit));
}

/// Positions of a split before the query's window.
int Attention::hidden(const Call& call, const Block& block, int query, int64_t split) {
  const int64_t first = call.batch.first_visible(row_of(call, block, query), call.shape.window);
  return static_cast<int>(std::clamp<int64_t>(first - split * kAttentionSplit, 0, kAttentionSplit));
}

int64_t Attention::first_split(const Call& call, const Block& block, int query) {
  return call.batch.first_visible(row_of(call, block, query), call.shape.window) / kAttentionSplit;
}

/// Fills blocks_; returns the number of parts of all splits.
int64_t Attention::plan(const Call& call) {
  blocks_.clear();
  const BatchView& batch = call.batch;
  // Blocks of whole rows if a row's queries fit.
  const int step = call.group > kMaxQueries ? kMaxQueries : kMaxQueries / call.group * call.group;
  int64_t parts = 0;
  for (int32_t row = 0; row < batch.n_rows;) {
    const int32_t begin = row;
    const int32_t sequence = batch.row_sequence[row];
    while (row < batch.n_rows && batch.row_sequence[row] == sequence) ++row;
    const int32_t queries = (row - begin) * call.group;
    for (int32_t q = 0; q < queries; q += step) {
      Block b = {sequence, begin, q, std::min(step, queries - q), 0, 0, parts};
      b.first_split = first_split(call, b, 0);
      b.n_splits = (batch.visible(row_of(call, b, b.n_queries - 1)) - 1) / kAttentionSplit + 1 -
                   b.first_split;
      parts += b.n_splits * b.n_queries * call.shape.n_kv_heads;
      blocks_.push_back(b);
    }
  }
  return parts;
}

/// Scratch of attend_split().
int64_t Attention::scratch_floats(const Call& call) {
  return static_cast<int64_t>(kMaxQueries) * kAttentionSplit + decoded_floats(call.shape.head_dim);
}

/// The parts of a block's queries, [query, part_floats].
void Attention::attend_split(const Call& call, const Block& block, int kv_head, int64_t split,
                             float* scratch, float* const* parts) const {
  const int n = call.shape.head_dim;
  const PageLayout layout(call.shape, call.kv.k_type, call.kv.v_type);
  std::array<const float*, kMaxQueries> q = {};
  std::array<int32_t, kMaxQueries> n_valid = {};
  std::array<int32_t, kMaxQueries> first_valid = {};
  std::array<const uint8_t*, kPagesPerSplit> k = {};
  std::array<const uint8_t*, kPagesPerSplit> v = {};
  std::array<const uint8_t*, kPagesPerSplit> next = {};
  int most = 0;
  int least = kAttentionSplit;
  for (int i = 0; i < block.n_queries; ++i) {
    const int64_t head =
        static_cast<int64_t>(kv_head) * call.group + (block.first_query + i) % call.group;
    q[i] = call.qg.row(row_of(call, block, i)) + head * call.shape.query_stride();
    n_valid[i] = visible(call, block, i, split);
    first_valid[i] = n_valid[i] > 0 ? hidden(call, block, i, split) : 0;
    most = std::max(most, n_valid[i]);
    if (n_valid[i] > 0) least = std::min(least, first_valid[i]);
  }
  const int32_t* pages = call.batch.page_table.data() +
                         call.batch.pages_of(block.sequence, call.kv.group) +
                         split * kPagesPerSplit;
  for (int p = least / kKvPageTokens; p * kKvPageTokens < most; ++p) {
    const uint8_t* page = call.kv.base + pages[p] * call.kv.page_bytes;
    k[p] = page + layout.key(kv_head);
    v[p] = page + layout.value(kv_head);
  }
  SplitUnit u;
  if (split + 1 < block.first_split + block.n_splits) {
    u.n_next = visible(call, block, block.n_queries - 1, split + 1);
    u.next_k = next.data();
    for (int p = 0; p * kKvPageTokens < u.n_next; ++p) {
      next[p] = call.kv.base + pages[kPagesPerSplit + p] * call.kv.page_bytes + layout.key(kv_head);
    }
  }
  u.head_dim = n;
  u.n_queries = block.n_queries;
  u.q = q.data();
  u.n_valid = n_valid.data();
  u.first_valid = first_valid.data();
  u.k = k.data();
  u.v = v.data();
  u.k_bytes = layout.k_head_bytes;
  u.v_bytes = layout.v_head_bytes;
  u.scale = call.shape.scale;
  u.scores = scratch;
  u.decoded = scratch + static_cast<int64_t>(kMaxQueries) * kAttentionSplit;
  u.part = parts;
  kernels_.score[static_cast<int>(layout.k_type)](u);
  kernels_.weigh(u);
  kernels_.add_values[static_cast<int>(layout.v_type)](u);
}

void Attention::finish(const Call& call, const Block& block, int kv_head, int query,
                       float* part) const {
  const int n = call.shape.head_dim;
  const int32_t row = row_of(call, block, query);
  const int64_t head =
      static_cast<int64_t>(kv_head) * call.group + (block.first_query + query) % call.group;
  const float* q = call.qg.row(row) + head * call.shape.query_stride();
  if (call.shape.sinks != nullptr) kernels_.fold_sink(call.shape.sinks[head], n, part);
  kernels_.finish_part(part, call.shape.gated ? q + n : nullptr, n,
                       dtype_info(call.kv.v_type).quantised, call.out.row(row) + head * n);
}

/// All splits of a block, one after the other.
void Attention::attend_whole(const Call& call, const Block& block, int kv_head, int worker) {
  const int64_t parts_floats = kMaxQueries * call.part_floats;
  float* scratch = scratch_.get(worker, scratch_floats(call) + 2 * parts_floats);
  float* all = scratch + scratch_floats(call);
  float* next = all + parts_floats;
  // The first split that a query sees goes to `all`, the others are folded into it.
  std::array<float*, kMaxQueries> parts = {};
  for (int64_t s = 0; s < block.n_splits; ++s) {
    const int64_t split = block.first_split + s;
    for (int i = 0; i < block.n_queries; ++i) {
      float* const to = split == first_split(call, block, i) ? all : next;
      parts[i] = to + i * call.part_floats;
    }
    attend_split(call, block, kv_head, split, scratch, parts.data());
    for (int i = 0; i < block.n_queries; ++i) {
      if (split == first_split(call, block, i) || visible(call, block, i, split) == 0) continue;
      kernels_.fold_part(next + i * call.part_floats, call.shape.head_dim,
                         all + i * call.part_floats);
    }
  }
  for (int i = 0; i < block.n_queries; ++i) {
    finish(call, block, kv_head, i, all + i * call.part_floats);
  }
}

/// Computes every split of every block independently, then folds the parts: enough parallel work
/// from a single row.
void Attention::attend_in_splits(const Call& call, int64_t n_parts, int64_t ns) {
  float* parts = parts_.at_least(n_parts * call.part_floats);
  tasks_.clear();
  for (size_t b = 0; b < blocks_.size(); ++b) {
    for (int h = 0; h < call.shape.n_kv_heads; ++h) {
      for (int64_t s = 0; s < blocks_[b].n_splits; ++s) {
        tasks_.push_back({static_cast<int32_t>(b), h, s});
      }
    }
  }
  auto part_of = [&](const Block& b, int64_t kv_head, int64_t split) {
    return parts + (b.first_part + (kv_head * b.n_splits + split) * b.n_queries) * call.part_floats;
  };
  for_units(pool_, static_cast<int64_t>(tasks_.size()), ns, [&](int64_t i, int worker) {
    const SplitTask& t = tasks_[i];
    const Block& b = blocks_[t.block];
    float* scratch = scratch_.get(worker, scratch_floats(call));
    std::array<float*, kMaxQueries> of_queries = {};
    for (int q = 0; q < b.n_queries; ++q) {
      of_queries[q] = part_of(b, t.kv_head, t.split) + q * call.part_floats;
    }
    attend_split(call, b, t.kv_head, b.first_split + t.split, scratch, of_queries.data());
  });
  const int64_t heads = call.shape.n_kv_heads;
  for_units(pool_, static_cast<int64_t>(blocks_.size()) * heads, n_parts * call.part_floats / 8,
            [&](int64_t i, int /*worker*/) {
              const Block& b = blocks_[i / heads];
              const int head = static_cast<int>(i % heads);
              for (int q = 0; q < b.n_queries; ++q) {
                const int64_t offset = q * call.part_floats;
                int64_t s = first_split(call, b, q) - b.first_split;
                float* const all = part_of(b, head, s) + offset;
                for (++s; s < b.n_splits && visible(call, b, q, b.first_split + s) > 0; ++s) {
                  kernels_.fold_part(part_of(b, head, s) + offset, call.shape.head_dim, all);
                }
                finish(call, b, head, q, all);
              }
            });
}

void Attention::attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg,
                       const KvView& kv, MatrixView out) {
  const Call call = {
      batch, shape, qg, kv, out, shape.n_heads / shape.n_kv_heads, kPartValues + shape.head_dim};
  const int64_t parts = plan(call);
  const int64_t heads = shape.n_kv_heads;
  const auto units = static_cast<int64_t>(blocks_.size()) * heads;
  int64_t ns = 0;
  bool splits = false;
  for (const Block& b : blocks_) {
    splits |= b.n_splits > 1;
    const int64_t positions = batch.visible(row_of(call, b, b.n_queries - 1)) -
                              batch.first_visible(row_of(call, b, 0), shape.window);
    ns += heads * b.n_queries * positions * shape.head_dim / 8;
  }
  if (pool_.size() > 1 && splits && parts * call.part_floats <= kMaxPartFloats) {
    attend_in_splits(call, parts, ns);
    return;
  }
  for_units(pool_, units, ns, [&](int64_t i, int worker) {
    attend_whole(call, blocks_[i / heads], static_cast<int>(i % heads), worker);
  });
}

}  // namespace chimere::kernels::cpu
