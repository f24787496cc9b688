#include "model/layers/mamba_mixer.h"

#include <algorithm>
#include <string>

namespace chimere::model {
namespace {

constexpr int kMaxMambaTaps = 8;  // of the ops

/// [channels, state_dim] as a file has it to [channels / 16, state_dim, 16].
std::vector<float> by_vectors(const float* a, const kernels::SelectiveShape& shape) {
  constexpr int kUnit = kernels::kChannelUnit;
  std::vector<float> out(static_cast<size_t>(shape.state_floats()));
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t n = 0; n < shape.state_dim; ++n) {
      const int64_t to = (c / kUnit * shape.state_dim + n) * kUnit + c % kUnit;
      out[static_cast<size_t>(to)] = a[c * shape.state_dim + n];
    }
  }
  return out;
}

}  // namespace

Result<MambaSpec> read_mamba(const Keys& keys) {
  MambaSpec spec;
  CHIMERE_TRY(spec.conv_kernel, keys.integer("ssm.conv_kernel", 2, kMaxMambaTaps));
  CHIMERE_TRY(spec.shape.state_dim, keys.integer("ssm.state_size", 1, kernels::kMaxStateDim));
  CHIMERE_TRY(spec.shape.channels, keys.integer("ssm.inner_size", 1, kMaxWidth));
  CHIMERE_TRY(spec.dt_rank, keys.integer("ssm.time_step_rank", 1, kMaxWidth));
  if (spec.shape.channels % kernels::kChannelUnit != 0) {
    return unsupported(keys.name("ssm.inner_size") + " is " + std::to_string(spec.shape.channels) +
                       "; it must be a multiple of " + std::to_string(kernels::kChannelUnit));
  }
  if (keys.has("ssm.dt_b_c_rms")) {
    CHIMERE_TRY(const bool norms, keys.file().get_bool(keys.name("ssm.dt_b_c_rms")));
    if (norms) spec.norms = MambaSpec::InnerNorms::kPlain;
  }
  if (keys.has("ssm.dt_b_c_rms_epsilon")) {
    CHIMERE_TRY(spec.inner_eps, keys.positive("ssm.dt_b_c_rms_epsilon"));
  }
  return spec;
}

std::unique_ptr<MambaMixer> MambaSpec::bind(const SubLayerBinding& to) const {
  WeightBinder& weights = to.weights;
  const int64_t channels = shape.channels;
  const int64_t n_states = shape.state_dim;
  auto mixer = std::make_unique<MambaMixer>();
  mixer->shape_ = shape;
  mixer->conv_shape_ = {.channels = shape.channels, .taps = conv_kernel};
  mixer->block_ = to.block;
  mixer->norm_eps_ = inner_eps > 0 ? inner_eps : to.norm_eps;
  const WeightView in = weights.matrix(to.tensor("ssm_in.weight"), 2 * channels, to.n_embd);
  if (in.data != nullptr) {
    mixer->x_ = in.rows_from(0, channels);
    mixer->z_ = in.rows_from(channels, channels);
  }
  mixer->conv_ = weights.f32_matrix(to.tensor("ssm_conv1d.weight"), channels, conv_kernel);
  if (const std::string bias = to.tensor("ssm_conv1d.bias"); weights.has(bias)) {
    mixer->conv_bias_ = weights.vector(bias, channels);
  }
  const WeightView x = weights.matrix(to.tensor("ssm_x.weight"), dt_rank + 2 * n_states, channels);
  if (x.data != nullptr) {
    mixer->rank_ = x.rows_from(0, dt_rank);
    mixer->b_ = x.rows_from(dt_rank, n_states);
    mixer->c_ = x.rows_from(dt_rank + n_states, n_states);
  }
  mixer->dt_ = weights.matrix(to.tensor("ssm_dt.weight"), channels, dt_rank);
  mixer->scan_.dt_bias = weights.vector(to.tensor("ssm_dt.bias"), channels);
  mixer->scan_.d = weights.vector(to.tensor("ssm_d"), channels);
  if (const float* a = weights.f32_matrix(to.tensor("ssm_a"), channels, n_states); a != nullptr) {
    mixer->a_ = by_vectors(a, shape);
    mixer->scan_.a = mixer->a_.data();
  }
  mixer->out_ = weights.matrix(to.tensor("ssm_out.weight"), to.n_embd, channels);
  if (norms == InnerNorms::kPlain) {
    mixer->ones_.assign(static_cast<size_t>(std::max<int64_t>(dt_rank, n_states)), 1.0F);
    mixer->rank_norm_ = mixer->b_norm_ = mixer->c_norm_ = mixer->ones_.data();
  } else if (norms == InnerNorms::kWeighted) {
    mixer->rank_norm_ = weights.vector(to.tensor("ssm_dt_norm.weight"), dt_rank);
    mixer->b_norm_ = weights.vector(to.tensor("ssm_b_norm.weight"), n_states);
    mixer->c_norm_ = weights.vector(to.tensor("ssm_c_norm.weight"), n_states);
  }
  return mixer;
}

Status MambaMixer::place(Placement& to) {
  for (WeightView* w : {&x_, &z_, &rank_, &b_, &c_, &dt_, &out_}) {
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  const int64_t channels = shape_.channels;
  CHIMERE_TRY(conv_, to.ops.place_floats(conv_, channels * conv_shape_.taps));
  if (conv_bias_ != nullptr) {
    CHIMERE_TRY(conv_bias_, to.ops.place_floats(conv_bias_, channels));
  }
  CHIMERE_TRY(scan_.a, to.ops.place_floats(scan_.a, shape_.state_floats()));
  CHIMERE_TRY(scan_.d, to.ops.place_floats(scan_.d, channels));
  CHIMERE_TRY(scan_.dt_bias, to.ops.place_floats(scan_.dt_bias, channels));
  if (rank_norm_ == nullptr) return {};
  CHIMERE_TRY(rank_norm_, to.ops.place_floats(rank_norm_, rank_.n_out));
  CHIMERE_TRY(b_norm_, to.ops.place_floats(b_norm_, shape_.state_dim));
  CHIMERE_TRY(c_norm_, to.ops.place_floats(c_norm_, shape_.state_dim));
  return {};
}

Status MambaMixer::add_state(StateBuilder& states) {
  states.add_convolution(block_, conv_shape_.state_floats(), conv_shape_.row_floats(), conv_state_);
  states.add_recurrent(block_, shape_.state_floats(), shape_.row_floats(), scan_state_);
  return {};
}

MambaMixer::Buffers MambaMixer::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.x = at.matrix(rows, shape_.channels);
  b.z = at.matrix(rows, shape_.channels);
  b.rank = at.matrix(rows, rank_.n_out);
  b.b = at.matrix(rows, shape_.state_dim);
  b.c = at.matrix(rows, shape_.state_dim);
  b.dt = at.matrix(rows, shape_.channels);
  b.out = at.matrix(rows, shape_.channels);
  return b;
}

void MambaMixer::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  const auto of = kernels::StepRows::kAll;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{x_, b.x}, {z_, b.z}};
  ops.linear(rows.h, in);
  ops.causal_conv(rows.batch, conv_shape_, conv_, conv_bias_, conv_state_, b.x);
  const kernels::LinearJob select[] = {{rank_, b.rank}, {b_, b.b}, {c_, b.c}};
  ops.linear(ops.prepare(b.x, of), select);
  if (rank_norm_ != nullptr) {
    ops.rms_norm(b.rank, rank_norm_, norm_eps_, b.rank, of);
    ops.rms_norm(b.b, b_norm_, norm_eps_, b.b, of);
    ops.rms_norm(b.c, c_norm_, norm_eps_, b.c, of);
  }
  const kernels::LinearJob widen[] = {{dt_, b.dt}};
  ops.linear(b.rank, widen);
  ops.selective_scan(rows.batch, shape_, scan_, {b.x, b.dt, b.b, b.c}, scan_state_, b.out);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  ops.linear(ops.activate(kernels::Activation::kSilu, b.z, b.out, kernels::StepRows::kAll),
             add_to_stream);
}

}  // namespace chimere::model
