#include "model/layers/dense_network.h"

#include <span>

namespace chimere::model {

Result<DenseSpec> read_dense(const Keys& keys, int block) {
  DenseSpec spec;
  CHIMERE_TRY(spec.n_ff, keys.integer_of_block("feed_forward_length", block, 1, kMaxWidth));
  return spec;
}

std::unique_ptr<DenseNetwork> DenseSpec::bind(const SubLayerBinding& to) const {
  auto network = std::make_unique<DenseNetwork>();
  network->activation_ = activation;
  if (gated) network->gate_ = to.weights.matrix(to.tensor("ffn_gate.weight"), n_ff, to.n_embd);
  network->up_ = to.weights.matrix(to.tensor("ffn_up.weight"), n_ff, to.n_embd);
  network->down_ = to.weights.matrix(to.tensor("ffn_down.weight"), to.n_embd, n_ff);
  return network;
}

Status DenseNetwork::place(Placement& to) {
  for (WeightView* w : {&gate_, &up_, &down_}) {
    if (w->n_out == 0) continue;
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  return {};
}

DenseNetwork::Buffers DenseNetwork::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.gate = at.matrix(rows, gate_.n_out);
  b.up = at.matrix(rows, up_.n_out);
  return b;
}

void DenseNetwork::forward(const SubLayerRows& rows) const {
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const bool gated = gate_.n_out > 0;
  const MatrixView& inner = gated ? b.gate : b.up;
  const kernels::LinearJob in[] = {{up_, b.up}, {gate_, b.gate}};
  rows.ops.linear(rows.h, std::span(in).first(gated ? 2 : 1));
  rows.ops.activate(activation_, inner, gated ? b.up : MatrixView());
  const kernels::LinearJob add_to_stream[] = {{down_, rows.x, /*accumulate=*/true, rows.scale}};
  rows.ops.linear({inner, rows.h.rows}, add_to_stream);
}

}  // namespace chimere::model
