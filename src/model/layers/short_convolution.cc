#include "model/layers/short_convolution.h"

#include <string>

namespace chimere::model {

Result<ShortConvolutionSpec> read_short_convolution(const Keys& keys) {
  constexpr int kMaxLength = 8;  // of the op
  ShortConvolutionSpec spec;
  CHIMERE_TRY(spec.taps, keys.integer("shortconv.l_cache", 2, kMaxLength));
  CHIMERE_TRY(const int n_embd, keys.integer("embedding_length", 1, kMaxWidth));
  if (n_embd % kernels::kChannelUnit != 0) {
    return unsupported(keys.name("embedding_length") + " is " + std::to_string(n_embd) +
                       "; it must be a multiple of " + std::to_string(kernels::kChannelUnit));
  }
  return spec;
}

std::unique_ptr<ShortConvolution> ShortConvolutionSpec::bind(const SubLayerBinding& to) const {
  WeightBinder& weights = to.weights;
  const int64_t n = to.n_embd;
  auto mixer = std::make_unique<ShortConvolution>();
  mixer->shape_ = {.channels = to.n_embd, .taps = taps, .silu = false};
  mixer->block_ = to.block;
  const WeightView in = weights.matrix(to.tensor("shortconv.in_proj.weight"), 3 * n, n);
  if (in.data != nullptr) {
    mixer->b_ = in.rows_from(0, n);
    mixer->c_ = in.rows_from(n, n);
    mixer->x_ = in.rows_from(2 * n, n);
  }
  mixer->conv_ = weights.f32_matrix(to.tensor("shortconv.conv.weight"), n, taps);
  mixer->out_ = weights.matrix(to.tensor("shortconv.out_proj.weight"), n, n);
  return mixer;
}

Status ShortConvolution::place(Placement& to) {
  for (WeightView* w : {&b_, &c_, &x_, &out_}) {
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  CHIMERE_TRY(conv_, to.ops.place_floats(conv_, int64_t{shape_.channels} * shape_.taps));
  return {};
}

Status ShortConvolution::add_state(StateBuilder& states) {
  states.add_convolution(block_, shape_.state_floats(), shape_.row_floats(), state_);
  return {};
}

ShortConvolution::Buffers ShortConvolution::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.b = at.matrix(rows, shape_.channels);
  b.c = at.matrix(rows, shape_.channels);
  b.x = at.matrix(rows, shape_.channels);
  return b;
}

void ShortConvolution::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{b_, b.b}, {c_, b.c}, {x_, b.x}};
  ops.linear(rows.h, in);
  ops.multiply(b.b, b.x);
  ops.causal_conv(rows.batch, shape_, conv_, /*bias=*/nullptr, state_, b.x);
  ops.multiply(b.c, b.x);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  ops.linear(b.x, add_to_stream);
}

}  // namespace chimere::model
