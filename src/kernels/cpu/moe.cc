// The expert feed-forward network in two parallel loops: gate and up of all experts, then down of
// all experts and the sum in rank order. Rows are sorted by expert, so that each weight is read
// once per step.
#include <algorithm>
#include <utility>

#include "kernels/cpu/for_units.h"
#include "kernels/cpu/linear_engine.h"
#include "kernels/dot_rule.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu {
namespace {

/// Elements of a row per unit of work in activate().
constexpr int64_t kActivatePiece = 1024;

/// Weight rows of an expert per unit of work. Large, because each switch to another expert's
/// weights stalls until the prefetcher has found the new stream; small enough that the results of
/// all entries stay in cache and every thread has work.
int64_t tile_width(int64_t n_out, int64_t n_entries, int n_threads) {
  constexpr int64_t kNarrow = 32;
  constexpr int64_t kWide = 256;
  constexpr int64_t kMaxResults = 8192;
  const int64_t width =
      std::min({kWide, kMaxResults / std::max<int64_t>(1, n_entries), n_out / (2 * n_threads)});
  return std::max(kNarrow, width / kNarrow * kNarrow);
}

/// rows[i] += bias, for `count` rows of `width` elements; bias is nullptr where there is none.
void add_bias(const float* bias, float* const* rows, int64_t count, int64_t width) {
  if (bias == nullptr) return;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t o = 0; o < width; ++o) rows[i][o] += bias[o];
  }
}

const float* from(const float* bias, int64_t begin) {
  return bias != nullptr ? bias + begin : nullptr;
}

}  // namespace

void LinearEngine::Impl::group_by_expert(ConstMatrixView x, std::span<const ExpertWeights> experts,
                                         const Routing& routing, const ExpertWeights* shared,
                                         bool is_rounded) {
  const int64_t n_pairs = x.rows * routing.n_used;
  const int64_t n_shared = shared != nullptr ? x.rows : 0;
  const auto n_entries = n_shared + std::count_if(routing.ids, routing.ids + n_pairs,
                                                  [](int32_t id) { return id >= 0; });
  groups.clear();
  place.resize(static_cast<size_t>(n_pairs + n_shared));
  entry_x.resize(static_cast<size_t>(n_entries));
  entry_rounded.resize(static_cast<size_t>(n_entries));
  auto set = [&](int64_t pair, int64_t row, int64_t entry) {
    place[static_cast<size_t>(pair)] = entry;
    entry_x[static_cast<size_t>(entry)] = x.row(row);
    if (is_rounded) entry_rounded[static_cast<size_t>(entry)] = rounded.rows()[row];
  };
  int64_t next = 0;
  if (shared != nullptr) {
    // The shared expert comes first, because it has the most rows.
    groups.push_back({shared, 0, x.rows});
    for (int64_t r = 0; r < x.rows; ++r) set(n_pairs + r, r, r);
    next = x.rows;
  }
  expert_begin.assign(experts.size() + 1, 0);
  for (int64_t k = 0; k < n_pairs; ++k) {
    if (routing.ids[k] >= 0) ++expert_begin[static_cast<size_t>(routing.ids[k]) + 1];
  }
  for (size_t e = 0; e < experts.size(); ++e) {
    const int64_t count = expert_begin[e + 1];
    if (count > 0) groups.push_back({&experts[e], next, count});
    expert_begin[e] = next;
    next += count;
  }
  for (int64_t k = 0; k < n_pairs; ++k) {
    if (routing.ids[k] < 0) continue;
    set(k, k / routing.n_used, expert_begin[static_cast<size_t>(routing.ids[k])]++);
  }
}

void LinearEngine::Impl::prepare_adapters(ConstMatrixView x, const Routing& routing,
                                          MatrixAdapters adapters) {
  entry_adapters.clear();
  if (adapters.none()) return;
  step_adapters = adapters.step;
  entry_adapters.resize(entry_x.size());
  for (size_t pair = 0; pair < place.size(); ++pair) {
    const auto n_pairs = static_cast<size_t>(x.rows * routing.n_used);
    if (pair < n_pairs && routing.ids[pair] < 0) continue;
    const size_t row = pair < n_pairs ? pair / static_cast<size_t>(routing.n_used) : pair - n_pairs;
    entry_adapters[static_cast<size_t>(place[pair])].uses =
        step_adapters->of(static_cast<int64_t>(row), adapters.wanted);
  }
  int64_t inner = 0;
  for (const Group& group : groups) {
    for (int64_t i = group.begin; i < group.begin + group.count; ++i) {
      EntryAdapters& entry = entry_adapters[static_cast<size_t>(i)];
      const ExpertWeights& e = *group.weights;
      for (const auto& [at, w] :
           {std::pair(&entry.gate, &e.gate), {&entry.up, &e.up}, {&entry.down, &e.down}}) {
        *at = inner;
        inner += LowRankChange{*step_adapters, entry.uses, *w}.inner();
      }
    }
  }
  if (inner == 0) return entry_adapters.clear();
  inner_products.reserve(static_cast<size_t>(inner));
  pool.parallel_for(static_cast<int64_t>(groups.size()), 1,
                    [&](int64_t begin, int64_t end, int id) {
                      LowRankScratch& scratch = workers[static_cast<size_t>(id)].low_rank;
                      for (int64_t g = begin; g < end; ++g) {
                        const Group& group = groups[static_cast<size_t>(g)];
                        for (int64_t i = group.begin; i < group.begin + group.count; ++i) {
                          const EntryAdapters& entry = entry_adapters[static_cast<size_t>(i)];
                          const float* const* row = &entry_x[static_cast<size_t>(i)];
                          const ExpertWeights& e = *group.weights;
                          low_rank_inner(kernels, {*step_adapters, entry.uses, e.gate}, row, 1,
                                         inner_products.data() + entry.gate, scratch);
                          low_rank_inner(kernels, {*step_adapters, entry.uses, e.up}, row, 1,
                                         inner_products.data() + entry.up, scratch);
                        }
                      }
                    });
}

void LinearEngine::Impl::add_adapters(WeightView ExpertWeights::*matrix, const Group& group,
                                      int64_t begin, int64_t end, float* const* y,
                                      Worker& worker) const {
  if (entry_adapters.empty()) return;
  for (int64_t i = 0; i < group.count; ++i) {
    const EntryAdapters& entry = entry_adapters[static_cast<size_t>(group.begin + i)];
    const int64_t at = matrix == &ExpertWeights::gate ? entry.gate
                       : matrix == &ExpertWeights::up ? entry.up
                                                      : entry.down;
    low_rank_outputs(kernels, {*step_adapters, entry.uses, group.weights->*matrix}, 1,
                     inner_products.data() + at, 1, begin, end, y + i, worker.low_rank);
  }
}

void LinearEngine::Impl::gate_up(const OutputTile& tile, const uint8_t* next_w,
                                 Activation activation, Worker& worker) {
  const Group& group = groups[static_cast<size_t>(tile.owner)];
  const auto first = static_cast<size_t>(group.begin);
  const int64_t width = tile.end - tile.begin;
  ActivationRows x;
  x.n = group.count;
  x.x = entry_x.data() + first;
  x.rounded = entry_rounded.data() + first;
  worker.y.resize(static_cast<size_t>(group.count));
  auto h_at = [&](int64_t i) { return h.data() + (group.begin + i) * h_stride + tile.begin; };
  for (int64_t i = 0; i < x.n; ++i) worker.y[static_cast<size_t>(i)] = h_at(i);
  const float* up = nullptr;
  const ExpertWeights& expert = *group.weights;
  if (expert.gated()) {
    product(expert.gate, tile.begin, tile.end, x, worker.y.data(), false, worker,
            weight_row(expert.up, tile.begin));
    add_adapters(&ExpertWeights::gate, group, tile.begin, tile.end, worker.y.data(), worker);
    add_bias(from(expert.gate_bias, tile.begin), worker.y.data(), x.n, width);
    float* const out = worker.out.reserve(static_cast<size_t>(group.count * width));
    for (int64_t i = 0; i < x.n; ++i) worker.y[static_cast<size_t>(i)] = out + i * width;
    up = out;
  }
  product(expert.up, tile.begin, tile.end, x, worker.y.data(), false, worker, next_w);
  add_adapters(&ExpertWeights::up, group, tile.begin, tile.end, worker.y.data(), worker);
  add_bias(from(expert.up_bias, tile.begin), worker.y.data(), x.n, width);
  for (int64_t i = 0; i < x.n; ++i) {
    kernels.activate(activation, h_at(i), up != nullptr ? up + i * width : nullptr, width);
  }

  // The thread that completes the group's h rounds it.
  std::atomic<int64_t>& left = tiles_left[static_cast<size_t>(tile.owner)];
  if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (int64_t i = group.begin; !entry_adapters.empty() && i < group.begin + group.count; ++i) {
    const EntryAdapters& entry = entry_adapters[static_cast<size_t>(i)];
    low_rank_inner(kernels, {*step_adapters, entry.uses, expert.down},
                   &h_rows[static_cast<size_t>(i)], 1, inner_products.data() + entry.down,
                   worker.low_rank);
  }
  if (!takes_integer_dot(group.weights->down.type)) return;
  for (int64_t i = group.begin; i < group.begin + group.count; ++i) {
    kernels.round(h.data() + i * h_stride, group.weights->down.n_in, h_rounded.rows()[i]);
  }
}

void LinearEngine::Impl::down(int64_t begin, int64_t end, const Routing& routing, bool has_shared,
                              float scale, MatrixView y, Worker& worker) {
  const int64_t width = end - begin;
  const auto n_entries = static_cast<int64_t>(entry_x.size());
  float* out = worker.out.reserve(static_cast<size_t>((n_entries + 1) * width));
  worker.y.resize(static_cast<size_t>(n_entries));
  for (int64_t i = 0; i < n_entries; ++i) worker.y[static_cast<size_t>(i)] = out + i * width;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group& group = groups[g];
    ActivationRows x;
    x.n = group.count;
    x.x = h_rows.data() + group.begin;
    x.rounded = h_rounded.rows() + group.begin;
    const uint8_t* const next_w =
        g + 1 < groups.size() ? weight_row(groups[g + 1].weights->down, begin) : nullptr;
    product(group.weights->down, begin, end, x, worker.y.data() + group.begin, false, worker,
            next_w);
    add_adapters(&ExpertWeights::down, group, begin, end, worker.y.data() + group.begin, worker);
    add_bias(from(group.weights->down_bias, begin), worker.y.data() + group.begin, x.n, width);
  }
  float* total = out + n_entries * width;
  auto add = [&](int64_t pair, float weight) {
    kernels.add_scaled(total, weight, out + place[static_cast<size_t>(pair)] * width, width);
  };
  for (int64_t r = 0; r < y.rows; ++r) {
    std::fill(total, total + width, 0.0F);
    for (int64_t k = r * routing.n_used; k < (r + 1) * routing.n_used; ++k) {
      if (routing.ids[k] < 0) break;
      add(k, routing.weights[k]);
    }
    if (has_shared) add(y.rows * routing.n_used + r, shared_weights[static_cast<size_t>(r)]);
    float* y_row = y.row(r) + begin;
    for (int64_t i = 0; i < width; ++i) y_row[i] += total[i] * scale;
  }
}

void LinearEngine::Impl::moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts,
                                 const Routing& routing, const ExpertWeights* shared,
                                 const float* shared_gate, const MoeOptions& options, MatrixView y,
                                 MatrixAdapters adapters) {
  if (x.rows == 0) return;
  bool integer = false;
  ActivationOrders orders;
  bool h_integer = false;
  ActivationOrders h_orders;
  int64_t n_ff = 0;
  auto look_at = [&](const ExpertWeights& e) {
    for (const WeightView* w : {&e.gate, &e.up}) {
      if (w->n_out == 0) continue;
      integer = integer || takes_integer_dot(w->type);
      add_order(w->type, orders);
    }
    h_integer = h_integer || takes_integer_dot(e.down.type);
    add_order(e.down.type, h_orders);
    n_ff = std::max(n_ff, e.up.n_out);
  };
  for (int64_t k = 0; k < x.rows * routing.n_used; ++k) {
    if (routing.ids[k] < 0) continue;
    look_at(experts[static_cast<size_t>(routing.ids[k])]);
  }
  if (shared != nullptr) look_at(*shared);
  if (integer) {
    rounded.resize(x.rows, x.cols, orders);
    round_rows(x);
  }
  group_by_expert(x, experts, routing, shared, integer);
  prepare_adapters(x, routing, adapters);

  const auto n_entries = static_cast<int64_t>(entry_x.size());
  h_stride = padded(n_ff);
  h.reserve(static_cast<size_t>(n_entries * h_stride));
  h_rows.resize(static_cast<size_t>(n_entries));
  for (int64_t i = 0; i < n_entries; ++i) {
    h_rows[static_cast<size_t>(i)] = h.data() + i * h_stride;
  }
  if (h_integer) h_rounded.resize(n_entries, n_ff, h_orders);
  if (tiles_left_size < groups.size()) {
    tiles_left_size = groups.size();
    tiles_left = std::make_unique<std::atomic<int64_t>[]>(tiles_left_size);
  }
  tiles.clear();
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t n = groups[g].weights->up.n_out;
    const int64_t width = tile_width(n, groups[g].count, pool.size());
    for (int64_t o = 0; o < n; o += width) {
      tiles.push_back({static_cast<int32_t>(g), o, std::min(o + width, n)});
    }
    tiles_left[g].store((n + width - 1) / width, std::memory_order_relaxed);
  }
  pool.parallel_for(static_cast<int64_t>(tiles.size()), 1, [&](int64_t begin, int64_t end, int id) {
    for (int64_t t = begin; t < end; ++t) {
      const OutputTile& tile = tiles[static_cast<size_t>(t)];
      const auto next = static_cast<size_t>(t + 1);  // a thread's tiles follow each other
      const uint8_t* next_w = nullptr;
      if (next < tiles.size()) {
        const ExpertWeights& e = *groups[static_cast<size_t>(tiles[next].owner)].weights;
        next_w = weight_row(e.gated() ? e.gate : e.up, tiles[next].begin);
      }
      gate_up(tile, next_w, options.activation, workers[static_cast<size_t>(id)]);
    }
  });

  if (shared != nullptr) {
    shared_weights.resize(static_cast<size_t>(x.rows));
    for (int64_t r = 0; r < x.rows; ++r) {
      shared_weights[static_cast<size_t>(r)] =
          shared_gate != nullptr ? sigmoid(shared_gate[r]) : 1.0F;
    }
  }
  const int64_t width = tile_width(y.cols, n_entries, pool.size());
  pool.parallel_for(y.cols, width, [&](int64_t begin, int64_t end, int id) {
    for (int64_t o = begin; o < end; o += width) {
      down(o, std::min(o + width, end), routing, shared != nullptr, options.scale, y,
           workers[static_cast<size_t>(id)]);
    }
  });
}

void LinearEngine::activate(Activation f, MatrixView h, ConstMatrixView up) {
  // Pieces of whole vectors, so that every element is computed the same way at any position.
  const int64_t pieces = (h.cols + kActivatePiece - 1) / kActivatePiece;
  const int64_t elements = h.rows * h.cols;
  for_units(impl_->pool, h.rows * pieces, elements / 2, [&](int64_t i, int /*worker*/) {
    const int64_t begin = i % pieces * kActivatePiece;
    const int64_t width = std::min(kActivatePiece, h.cols - begin);
    const float* const factors = up.data != nullptr ? up.row(i / pieces) + begin : nullptr;
    impl_->kernels.activate(f, h.row(i / pieces) + begin, factors, width);
  });
}

}  // namespace chimere::kernels::cpu
