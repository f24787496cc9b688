#include "model/layers/gated_delta_net.h"

#include <string>
#include <utility>
#include <vector>

namespace chimere::model {
namespace {

constexpr int kMaxConvKernel = 8;  // of the ops

/// A fused projection as published with Qwen3-Next: per k head, its rows of the first part, then of
/// the second part, and so on.
class FusedByKeyHead {
 public:
  /// `widths`: rows per k head of each part.
  FusedByKeyHead(std::string name, int n_k_heads, std::vector<int64_t> widths)
      : name_(std::move(name)), n_k_heads_(n_k_heads), widths_(std::move(widths)) {
    for (const int64_t w : widths_) stride_ += w;
  }

  /// Gathers the rows of `parts`, one whole part after the other.
  WeightView bind(const SubLayerBinding& to, const std::vector<size_t>& parts) const {
    std::vector<int64_t> rows;
    for (const size_t part : parts) {
      int64_t begin = 0;
      for (size_t p = 0; p < part; ++p) begin += widths_[p];
      for (int head = 0; head < n_k_heads_; ++head) {
        for (int64_t i = 0; i < widths_[part]; ++i) rows.push_back(head * stride_ + begin + i);
      }
    }
    return to.weights.gathered(to.tensor(name_), n_k_heads_ * stride_, to.n_embd, rows);
  }

 private:
  std::string name_;
  int n_k_heads_;
  std::vector<int64_t> widths_;
  int64_t stride_ = 0;
};

}  // namespace

Result<DeltaNetSpec> read_delta_net(const Keys& keys, HeadOrder order) {
  kernels::GdnShape g;
  g.tiled_heads = order == HeadOrder::kTiled;
  // Ollama's converters say which order they wrote.
  if (keys.has("ssm.v_head_reordered")) {
    CHIMERE_TRY(g.tiled_heads, keys.file().get_bool(keys.name("ssm.v_head_reordered")));
  }
  CHIMERE_TRY(g.conv_kernel, keys.integer("ssm.conv_kernel", 2, kMaxConvKernel));
  CHIMERE_TRY(g.head_dim, keys.head_dim("ssm.state_size"));
  CHIMERE_TRY(g.n_k_heads, keys.integer("ssm.group_count", 1, kMaxHeads));
  CHIMERE_TRY(g.n_v_heads, keys.integer("ssm.time_step_rank", 1, kMaxHeads));
  CHIMERE_TRY(const int inner, keys.integer("ssm.inner_size", 1, kMaxHeads * kMaxHeadDim));
  if (inner != g.value_dim()) {
    return invalid_data(keys.name("ssm.inner_size") + " is " + std::to_string(inner) +
                        "; time_step_rank heads of state_size make " +
                        std::to_string(g.value_dim()));
  }
  if (g.n_v_heads % g.n_k_heads != 0) {
    return invalid_data(keys.name("ssm.time_step_rank") + " must be a multiple of " +
                        keys.name("ssm.group_count"));
  }
  return DeltaNetSpec{g};
}

std::unique_ptr<GatedDeltaNet> DeltaNetSpec::bind(const SubLayerBinding& to) const {
  const kernels::GdnShape& g = shape;
  WeightBinder& weights = to.weights;
  const auto matrix = [&](const char* name, int64_t n_out, int64_t n_in) {
    return weights.matrix(to.tensor(name), n_out, n_in);
  };
  auto net = std::make_unique<GatedDeltaNet>();
  net->shape_ = g;
  net->block_ = to.block;
  net->norm_eps_ = to.norm_eps;
  // Fused tensors group v heads by k head, which tiled heads do not do.
  const bool fused_in = !g.tiled_heads && weights.has(to.tensor("ssm_in.weight"));
  const bool fused_ba = !g.tiled_heads && weights.has(to.tensor("ssm_ba.weight"));
  const int64_t v_heads = g.n_v_heads / g.n_k_heads;
  if (fused_in) {
    const int64_t k = g.head_dim;
    const int64_t v = v_heads * g.head_dim;
    const FusedByKeyHead in("ssm_in.weight", g.n_k_heads, {k, k, v, v});
    net->qkv_ = in.bind(to, {0, 1, 2});
    net->z_ = in.bind(to, {3});
  } else {
    net->qkv_ = matrix("attn_qkv.weight", g.conv_dim(), to.n_embd);
    net->z_ = matrix("attn_gate.weight", g.value_dim(), to.n_embd);
  }
  if (fused_ba) {
    const FusedByKeyHead ba("ssm_ba.weight", g.n_k_heads, {v_heads, v_heads});
    net->beta_ = ba.bind(to, {0});
    net->alpha_ = ba.bind(to, {1});
  } else {
    net->beta_ = matrix("ssm_beta.weight", g.n_v_heads, to.n_embd);
    net->alpha_ = matrix("ssm_alpha.weight", g.n_v_heads, to.n_embd);
  }
  net->out_ = matrix("ssm_out.weight", to.n_embd, g.value_dim());
  net->conv_ = weights.f32_matrix(to.tensor("ssm_conv1d.weight"), g.conv_dim(), g.conv_kernel);
  net->a_ = weights.vector(to.tensor("ssm_a"), g.n_v_heads);
  net->dt_bias_ = weights.vector(to.tensor("ssm_dt.bias"), g.n_v_heads);
  net->norm_ = weights.vector(to.tensor("ssm_norm.weight"), g.head_dim);
  return net;
}

Status GatedDeltaNet::place(Placement& to) {
  for (WeightView* w : {&qkv_, &z_, &alpha_, &beta_, &out_}) {
    CHIMERE_TRY(*w, to.ops.place(*w));
  }
  CHIMERE_TRY(conv_, to.ops.place_floats(conv_, int64_t{shape_.conv_dim()} * shape_.conv_kernel));
  CHIMERE_TRY(a_, to.ops.place_floats(a_, shape_.n_v_heads));
  CHIMERE_TRY(dt_bias_, to.ops.place_floats(dt_bias_, shape_.n_v_heads));
  CHIMERE_TRY(norm_, to.ops.place_floats(norm_, shape_.head_dim));
  return {};
}

Status GatedDeltaNet::add_state(StateBuilder& states) {
  states.add_convolution(block_, shape_.conv_state_floats(), shape_.conv_row_floats(), conv_state_);
  states.add_recurrent(block_, shape_.scan_state_floats(), shape_.scan_row_floats(), scan_state_);
  return {};
}

GatedDeltaNet::Buffers GatedDeltaNet::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.qkv = at.matrix(rows, shape_.conv_dim());
  b.z = at.matrix(rows, shape_.value_dim());
  b.alpha = at.matrix(rows, shape_.n_v_heads);
  b.beta = at.matrix(rows, shape_.n_v_heads);
  b.out = at.matrix(rows, shape_.value_dim());
  return b;
}

GpuScratch GatedDeltaNet::gpu_scratch() const {
  // The part of a chunk of the delta rule that is computed before its state is known.
  const int64_t chunk = kernels::kMaxChunkRows;
  const int64_t floats =
      shape_.n_k_heads * 2 * chunk + shape_.n_v_heads * (2 * shape_.head_dim + chunk);
  return {.widest = shape_.value_dim(), .bytes = floats * 4};
}

void GatedDeltaNet::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{qkv_, b.qkv}, {z_, b.z}, {alpha_, b.alpha}, {beta_, b.beta}};
  ops.linear(rows.h, in);
  const kernels::GdnOperands operands = {conv_,       conv_state_, a_,       dt_bias_,
                                         scan_state_, norm_,       norm_eps_};
  const kernels::Operand out =
      ops.gdn_mix(rows.batch, shape_, operands, b.qkv, b.alpha, b.beta, b.z, b.out);
  const kernels::LinearJob add_to_stream[] = {{out_, rows.x, /*accumulate=*/true, rows.scale}};
  ops.linear(out, add_to_stream);
}

}  // namespace chimere::model
