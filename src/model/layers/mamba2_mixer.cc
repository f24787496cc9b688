#include "model/layers/mamba2_mixer.h"

#include <algorithm>
#include <string>

namespace chimere::model {
namespace {

constexpr int kMaxTaps = 8;  // of the ops

}  // namespace

Result<Mamba2Spec> read_mamba2(const Keys& keys) {
  Mamba2Spec spec;
  kernels::SsdShape& s = spec.shape;
  CHIMERE_TRY(spec.conv_kernel, keys.integer("ssm.conv_kernel", 2, kMaxTaps));
  CHIMERE_TRY(s.state_dim, keys.integer("ssm.state_size", 1, kernels::kMaxStateDim));
  CHIMERE_TRY(s.n_groups, keys.integer_or("ssm.group_count", 1, 1, kMaxHeads));
  CHIMERE_TRY(s.n_heads, keys.integer("ssm.time_step_rank", 1, kMaxHeads));
  CHIMERE_TRY(const int inner, keys.integer("ssm.inner_size", 1, kMaxWidth));
  if (inner % s.n_heads != 0) {
    return invalid_data(keys.name("ssm.inner_size") + " (" + std::to_string(inner) +
                        ") must be a multiple of " + keys.name("ssm.time_step_rank") + " (" +
                        std::to_string(s.n_heads) + ")");
  }
  if (s.n_heads % s.n_groups != 0) {
    return invalid_data(keys.name("ssm.time_step_rank") + " (" + std::to_string(s.n_heads) +
                        ") must be a multiple of " + keys.name("ssm.group_count") + " (" +
                        std::to_string(s.n_groups) + ")");
  }
  s.head_dim = inner / s.n_heads;
  if (s.head_dim % kernels::kChannelUnit != 0 || s.conv_dim() % kernels::kChannelUnit != 0) {
    return unsupported(
        "heads of " + std::to_string(s.head_dim) + " elements with " + std::to_string(s.n_groups) +
        " states of " + std::to_string(s.state_dim) + "; " + keys.name("ssm.inner_size") + " / " +
        keys.name("ssm.time_step_rank") + " and the convolution's channels must be " +
        "multiples of " + std::to_string(kernels::kChannelUnit));
  }
  return spec;
}

std::unique_ptr<Mamba2Mixer> Mamba2Spec::bind(const SubLayerBinding& to) const {
  WeightBinder& weights = to.weights;
  const int64_t inner = shape.inner();
  const int64_t conv_dim = shape.conv_dim();
  auto mixer = std::make_unique<Mamba2Mixer>();
  mixer->shape_ = shape;
  mixer->conv_shape_ = {.channels = shape.conv_dim(), .taps = conv_kernel};
  mixer->block_ = to.block;
  mixer->norm_eps_ = to.norm_eps;
  const WeightView in =
      weights.matrix(to.tensor("ssm_in.weight"), inner + conv_dim + shape.n_heads, to.n_embd);
  if (in.data != nullptr) {
    mixer->z_ = in.rows_from(0, inner);
    mixer->xbc_ = in.rows_from(inner, conv_dim);
    mixer->dt_ = in.rows_from(inner + conv_dim, shape.n_heads);
  }
  mixer->conv_ = weights.f32_matrix(to.tensor("ssm_conv1d.weight"), conv_dim, conv_kernel);
  if (const std::string bias = to.tensor("ssm_conv1d.bias"); weights.has(bias)) {
    mixer->conv_bias_ = weights.vector(bias, conv_dim);
  }
  mixer->scan_.dt_bias = weights.vector(to.tensor("ssm_dt.bias"), shape.n_heads);
  mixer->scan_.a = weights.f32_matrix(to.tensor("ssm_a"), shape.n_heads, 1);
  mixer->scan_.d = weights.f32_matrix(to.tensor("ssm_d"), shape.n_heads, 1);
  if (const std::string norm = to.tensor("ssm_norm.weight"); norm_required || weights.has(norm)) {
    mixer->norm_ = weights.f32_matrix(norm, shape.n_groups, inner / shape.n_groups);
  }
  mixer->out_ = weights.matrix(to.tensor("ssm_out.weight"), to.n_embd, inner);
  return mixer;
}

Status Mamba2Mixer::place(Placement& to) {
  for (WeightView* w : {&z_, &xbc_, &dt_, &out_}) {
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  const int64_t conv_dim = shape_.conv_dim();
  CHIMERE_TRY(conv_, to.ops.place_floats(conv_, conv_dim * conv_shape_.taps));
  if (conv_bias_ != nullptr) {
    CHIMERE_TRY(conv_bias_, to.ops.place_floats(conv_bias_, conv_dim));
  }
  for (const float** v : {&scan_.a, &scan_.d, &scan_.dt_bias}) {
    CHIMERE_TRY(*v, to.ops.place_floats(*v, shape_.n_heads));
  }
  if (norm_ == nullptr) return {};
  CHIMERE_TRY(norm_, to.ops.place_floats(norm_, shape_.inner()));
  return {};
}

Status Mamba2Mixer::add_state(StateBuilder& states) {
  states.add_convolution(block_, conv_shape_.state_floats(), conv_shape_.row_floats(), conv_state_);
  states.add_recurrent(block_, shape_.state_floats(), shape_.row_floats(), scan_state_);
  return {};
}

Mamba2Mixer::Buffers Mamba2Mixer::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.z = at.matrix(rows, shape_.inner());
  b.xbc = at.matrix(rows, shape_.conv_dim());
  b.dt = at.matrix(rows, shape_.n_heads);
  b.out = at.matrix(rows, shape_.inner());
  return b;
}

GpuScratch Mamba2Mixer::gpu_scratch() const {
  // What a chunk computes before its state is known: products of rows, decays (f64) and steps.
  const int64_t bytes = int64_t{shape_.n_groups} * kernels::kMaxChunkRows * 4 + shape_.n_heads * 12;
  return {.widest = shape_.inner(), .bytes = std::max(bytes, conv_scratch_bytes(conv_shape_))};
}

void Mamba2Mixer::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{z_, b.z}, {xbc_, b.xbc}, {dt_, b.dt}};
  ops.linear(rows.h, in);
  ops.causal_conv(rows.batch, conv_shape_, conv_, conv_bias_, conv_state_, b.xbc);
  ops.ssd_scan(rows.batch, shape_, scan_, b.xbc, b.dt, scan_state_, b.out);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  // The gate comes before the norm.
  if (norm_ != nullptr) {
    const int group = shape_.inner() / shape_.n_groups;
    ops.linear(ops.gated_group_rms_norm(b.out, norm_, group, norm_eps_, b.z), add_to_stream);
    return;
  }
  ops.linear(ops.activate(kernels::Activation::kSilu, b.z, b.out, kernels::StepRows::kAll),
             add_to_stream);
}

}  // namespace chimere::model
