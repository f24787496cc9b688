#include "kernels/cuda/host_experts.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/host_experts_args.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/cuda/moe_prefill.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/step_arrays.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRowsOut = {"host_experts", "host_rows_out"};
constexpr Kernel kRowsIn = {"host_experts", "host_rows_in"};

/// Rows sent to the host together: a whole step that may be captured.
constexpr int32_t kMaxRows = kMaxGraphRows;
constexpr size_t kAlign = 256;
/// Address space of a layer's experts.
constexpr size_t kBufferBytes = size_t{16} << 30;

size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

std::array<WeightView*, 3> matrices(ExpertWeights& e) { return {&e.gate, &e.up, &e.down}; }

/// Scratch memory of the shared expert for `count` rows.
struct SharedScratch {
  float* x;  ///< [count, n_embd]
  RoundedRows x_rounded;
  float* gate;  ///< [count, n_ff]
  float* up;
  RoundedRows h_rounded;
  float* out;  ///< [count, n_embd]
  int64_t bytes;

  SharedScratch(int64_t count, int64_t n_embd, int64_t n_ff, uint8_t* memory) {
    uint8_t* at = memory;
    auto floats = [&](int64_t n) {
      auto* p = reinterpret_cast<float*>(at);
      at += aligned(static_cast<size_t>(count * n) * sizeof(float));
      return p;
    };
    auto rounded = [&](int64_t n) {
      const RoundedRows rows = tiled_rounded_rows_at(at, count, n);
      at += aligned(static_cast<size_t>(tiled_rounded_bytes(count, n)));
      return rows;
    };
    x = floats(n_embd);
    x_rounded = rounded(n_embd);
    gate = floats(n_ff);
    up = floats(n_ff);
    h_rounded = rounded(n_ff);
    out = floats(n_embd);
    bytes = at - memory;
  }
};

}  // namespace

Result<size_t> HostExperts::add(std::vector<ExpertWeights> experts, const ExpertWeights* shared) {
  if (side_ == nullptr) {
    CHIMERE_TRY(side_, device_.side_stream());
    CHIMERE_CHECK_OK(open_mailbox(experts.front().up.n_in));
  }
  Layer layer;
  CHIMERE_TRY(layer.experts, ops_->place_experts(experts, {}, ExpertPlacement::kDevice));
  std::vector<size_t> begins;
  for (ExpertWeights& e : experts) {
    for (const WeightView* w : matrices(e)) {
      begins.push_back(layer.bytes);
      layer.bytes += aligned(static_cast<size_t>(packed_bytes(*w)));
    }
  }
  if (layer.bytes > kBufferBytes) return out_of_memory("a layer's experts are too large for a GPU");
  CHIMERE_TRY(layer.packed, device_.pinned(layer.bytes));
  std::unique_ptr<MemoryRange>& buffer = buffers_[layers_.size() % buffers_.size()];
  if (buffer == nullptr) {
    CHIMERE_TRY(buffer, device_.reserve(kBufferBytes));
  }
  CHIMERE_CHECK_OK(buffer->commit(layer.bytes));
  pool_.parallel_for(
      static_cast<int64_t>(experts.size()), 1, [&](int64_t begin, int64_t end, int /*worker*/) {
        for (int64_t e = begin; e < end; ++e) {
          const auto at = static_cast<size_t>(e);
          const auto parts = matrices(experts[at]);
          for (size_t i = 0; i < parts.size(); ++i) {
            pack_rows(*parts[i], 0, parts[i]->n_out, layer.packed->data() + begins[3 * at + i]);
          }
        }
      });
  for (size_t e = 0; e < experts.size(); ++e) {
    const auto parts = matrices(experts[e]);
    for (size_t i = 0; i < parts.size(); ++i) parts[i]->data = buffer->data() + begins[3 * e + i];
  }
  CHIMERE_TRY(layer.biases, upload_biases(experts));
  layer.has_shared = shared != nullptr;
  if (shared != nullptr) layer.shared = *shared;
  CHIMERE_TRY(layer.table, ExpertTable::create(tables_, experts, shared));
  layers_.push_back(std::move(layer));
  return layers_.size() - 1;
}

Result<std::unique_ptr<MemoryRange>> HostExperts::upload_biases(
    std::vector<ExpertWeights>& experts) {
  std::vector<float> all;
  std::vector<std::pair<const float**, size_t>> places;
  for (ExpertWeights& e : experts) {
    const std::pair<const float**, int64_t> biases[] = {
        {&e.gate_bias, e.gate.n_out}, {&e.up_bias, e.up.n_out}, {&e.down_bias, e.down.n_out}};
    for (const auto& [bias, n] : biases) {
      if (*bias == nullptr) continue;
      places.emplace_back(bias, all.size());
      all.insert(all.end(), *bias, *bias + n);
    }
  }
  if (all.empty()) return std::unique_ptr<MemoryRange>();
  const size_t bytes = all.size() * sizeof(float);
  CHIMERE_TRY(std::unique_ptr<MemoryRange> range, tables_.reserve(bytes));
  CHIMERE_CHECK_OK(range->commit(bytes));
  CHIMERE_CHECK_OK(tables_.write(range->data(), all.data(), bytes));
  for (const auto& [bias, at] : places) *bias = reinterpret_cast<const float*>(range->data()) + at;
  return range;
}

Status HostExperts::open_mailbox(int64_t n_embd) {
  const size_t row = static_cast<size_t>(n_embd) * sizeof(float);
  constexpr size_t ranks = kMoeMostUsed * sizeof(float);
  CHIMERE_TRY(mailbox_.memory, device_.pinned(kMaxRows * (2 * row + 2 * ranks)));
  uint8_t* at = mailbox_.memory->data();
  mailbox_.n_embd = n_embd;
  mailbox_.x = reinterpret_cast<float*>(at);
  mailbox_.sums = reinterpret_cast<float*>(at += kMaxRows * row);
  mailbox_.weights = reinterpret_cast<float*>(at += kMaxRows * row);
  mailbox_.ids = reinterpret_cast<int32_t*>(at += kMaxRows * ranks);
  return {};
}

int64_t HostExperts::scratch_bytes(size_t index, const Call& call) const {
  const Layer& layer = layers_[index];
  const int64_t n_embd = call.x.cols;
  int64_t bytes = 0;
  if (call.decode.count > 0) {
    const int64_t rows = std::min(call.decode.count, kMaxRows);
    bytes = SharedScratch(rows, n_embd, layer.shared.up.n_out, nullptr).bytes;
  }
  if (call.prefill.count > 0) {
    bytes = std::max(bytes, moe_prefill_scratch_bytes(layer.table, call.prefill.count,
                                                      call.routing.n_used, n_embd));
  }
  return bytes;
}

void HostExperts::begin_prefill() {
  if (layers_.empty()) return;
  upload(0);
}

void HostExperts::upload(size_t layer) {
  // Earlier work may still use the buffer.
  side_->wait_for(device_.stream());
  side_->copy(buffers_[layer % buffers_.size()]->data(), layers_[layer].packed->data(),
              layers_[layer].bytes);
  uploaded_end_ = layer + 1;
}

void HostExperts::ffn(size_t layer, const Call& call) {
  for (int32_t first = 0; first < call.decode.count; first += kMaxRows) {
    decode_rows(layer, call, first, std::min(kMaxRows, call.decode.count - first));
  }
  if (call.prefill.count == 0) return;
  if (uploaded_end_ != layer + 1) upload(layer);
  Stream& stream = device_.stream();
  stream.wait_for(*side_);
  const bool more = layer + 1 < layers_.size();
  if (more && buffers_.size() > 1) upload(layer + 1);
  moe_prefill(stream, device_.facts().multiprocessors, layers_[layer].table, call.x, call.rounded,
              call.halves, call.prefill, call.routing, call.shared_gate, call.options,
              call.codebook, call.scratch, call.y);
  if (more && buffers_.size() == 1) upload(layer + 1);
}

void HostExperts::compute(const HostWork& work) {
  const int64_t n_embd = mailbox_.n_embd;
  std::fill_n(mailbox_.sums, work.rows * n_embd, 0.0F);
  ops_->moe_ffn(ConstMatrixView(mailbox_.x, work.rows, n_embd, n_embd),
                *layers_[work.layer].experts, {work.n_used, mailbox_.ids, mailbox_.weights},
                nullptr, {.activation = work.activation},
                MatrixView(mailbox_.sums, work.rows, n_embd, n_embd));
}

void HostExperts::shared_expert(const Layer& layer, const Call& call, bool in_place,
                                int32_t count) {
  Stream& stream = device_.stream();
  const int64_t n_embd = call.x.cols;
  const int64_t n_ff = layer.shared.up.n_out;
  const SharedScratch at(count, n_embd, n_ff, call.scratch);
  ConstMatrixView x = call.x;
  RoundedRows rounded = call.rounded;
  if (!in_place) {
    x = ConstMatrixView(at.x, count, n_embd, n_embd);
    rounded = at.x_rounded;
    if (takes_integer_dot(layer.shared.gate.type) || takes_integer_dot(layer.shared.up.type)) {
      round_rows(stream, x, rounded);
    }
  }
  const RowSet rows = {nullptr, count};
  const MatrixView h(at.gate, count, n_ff, n_ff);
  const MatrixView up(at.up, count, n_ff, n_ff);
  const bool gated = layer.shared.gated();
  const LinearJob in[] = {{layer.shared.up, gated ? up : h}, {layer.shared.gate, h}};
  linear_decode(stream, device_.facts(), x, rounded, rows, call.codebook,
                std::span(in).first(gated ? 2 : 1));
  const bool rounds = takes_integer_dot(layer.shared.down.type);
  activate(stream, call.options.activation, h, gated ? ConstMatrixView(up) : ConstMatrixView(),
           rounds ? at.h_rounded : RoundedRows{});
  const LinearJob out[] = {{layer.shared.down, MatrixView(at.out, count, n_embd, n_embd)}};
  linear_decode(stream, device_.facts(), h, at.h_rounded, rows, call.codebook, out);
}

void HostExperts::decode_rows(size_t index, const Call& call, int32_t first, int32_t count) {
  const Layer& layer = layers_[index];
  Stream& stream = device_.stream();
  const auto n_embd = static_cast<int32_t>(call.x.cols);
  const SharedScratch at(count, n_embd, layer.shared.up.n_out, call.scratch);
  const HostRows rows = {call.decode.ids, first, count};
  // The first rows are contiguous already.
  const bool in_place = call.decode.ids == nullptr && first == 0;
  HostRowsOutArgs out = {};
  out.rows = rows;
  out.x = call.x.data;
  out.x_stride = call.x.stride;
  out.ids = call.routing.ids;
  out.weights = call.routing.weights;
  out.x_to_host = mailbox_.x;
  out.ids_to_host = mailbox_.ids;
  out.weights_to_host = mailbox_.weights;
  out.x_copy = layer.has_shared && !in_place ? at.x : nullptr;
  out.n_embd = n_embd;
  out.n_used = call.routing.n_used;
  stream.launch(kRowsOut,
                {.grid = {static_cast<uint32_t>(count)},
                 .block = {kHostExpertsThreads},
                 .overlaps_previous = true},
                out);

  std::unique_ptr<HostWork>& work = works_[{index, count}];
  if (work == nullptr) {
    work = std::make_unique<HostWork>(
        HostWork{this, index, count, call.routing.n_used, call.options.activation});
  }
  side_->wait_for(stream);
  side_->call(
      [](void* data) {
        const auto* w = static_cast<const HostWork*>(data);
        w->self->compute(*w);
      },
      work.get());
  if (layer.has_shared) shared_expert(layer, call, in_place, count);
  stream.wait_for(*side_);

  HostRowsInArgs in = {};
  in.rows = rows;
  in.from_host = mailbox_.sums;
  in.shared = layer.has_shared ? at.out : nullptr;
  in.shared_gate = call.shared_gate;
  in.y = call.y.data;
  in.y_stride = call.y.stride;
  in.n_embd = n_embd;
  in.scale = call.options.scale;
  stream.launch(
      kRowsIn,
      {.grid = {static_cast<uint32_t>((n_embd + kHostExpertsThreads - 1) / kHostExpertsThreads),
                static_cast<uint32_t>(count)},
       .block = {kHostExpertsThreads}},
      in);
}

}  // namespace chimere::kernels::cuda
