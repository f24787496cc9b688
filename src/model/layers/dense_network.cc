#include "model/layers/dense_network.h"

#include <span>
#include <string>

namespace chimere::model {

Result<DenseSpec> read_dense(const Keys& keys, int block) {
  DenseSpec spec;
  CHIMERE_TRY(spec.n_ff, keys.integer_of_block("feed_forward_length", block, 1, kMaxWidth));
  return spec;
}

std::unique_ptr<DenseNetwork> DenseSpec::bind(const SubLayerBinding& to) const {
  auto network = std::make_unique<DenseNetwork>();
  network->activation_ = activation;
  if (gated && fused) {
    const WeightView both = to.weights.matrix(to.tensor("ffn_up.weight"), 2 * n_ff, to.n_embd);
    network->gate_ = both.rows_from(0, n_ff);
    network->up_ = both.rows_from(n_ff, n_ff);
  } else {
    if (gated) network->gate_ = to.weights.matrix(to.tensor("ffn_gate.weight"), n_ff, to.n_embd);
    network->up_ = to.weights.matrix(to.tensor("ffn_up.weight"), n_ff, to.n_embd);
  }
  network->down_ = to.weights.matrix(to.tensor("ffn_down.weight"), to.n_embd, n_ff);
  const auto bias = [&](const char* name, int64_t n) {
    const std::string tensor = to.tensor(name);
    return to.weights.has(tensor) ? to.weights.vector(tensor, n) : nullptr;
  };
  if (gated && fused) {
    network->gate_bias_ = bias("ffn_up.bias", 2 * int64_t{n_ff});
    if (network->gate_bias_ != nullptr) network->up_bias_ = network->gate_bias_ + n_ff;
  } else {
    if (gated) network->gate_bias_ = bias("ffn_gate.bias", n_ff);
    network->up_bias_ = bias("ffn_up.bias", n_ff);
  }
  network->down_bias_ = bias("ffn_down.bias", to.n_embd);
  if (network->down_bias_ != nullptr && to.scale != 1) {
    network->scaled_.assign(network->down_bias_, network->down_bias_ + to.n_embd);
    for (float& b : network->scaled_) b = b * to.scale;
    network->down_bias_ = network->scaled_.data();
  }
  return network;
}

Status DenseNetwork::place(Placement& to) {
  for (WeightView* w : {&gate_, &up_, &down_}) {
    if (w->n_out == 0) continue;
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  for (const float** bias : {&gate_bias_, &up_bias_, &down_bias_}) {
    if (*bias == nullptr) continue;
    CHIMERE_TRY(*bias, to.ops.place_floats(*bias, bias == &down_bias_ ? down_.n_out : up_.n_out));
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
  if (up_bias_ != nullptr) rows.ops.add_bias(b.up, up_bias_);
  if (gate_bias_ != nullptr) rows.ops.add_bias(b.gate, gate_bias_);
  const kernels::Operand activated =
      rows.ops.activate(activation_, inner, gated ? b.up : MatrixView(), rows.h.rows);
  const kernels::LinearJob add_to_stream[] = {{down_, rows.x, /*accumulate=*/true, rows.scale}};
  rows.ops.linear(activated, add_to_stream);
  if (down_bias_ != nullptr) rows.ops.add_bias(rows.x, down_bias_);
}

}  // namespace chimere::model
