#include "model/layers/shared_block.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace chimere::model {
namespace {

MatrixView part_of_rows(const MatrixView& rows, int64_t begin, int64_t cols) {
  return {rows.data == nullptr ? nullptr : rows.data + begin, rows.rows, cols, rows.stride};
}

}  // namespace

std::unique_ptr<SharedBlock> SharedBlockSpec::bind(const SubLayerBinding& to) const {
  WeightBinder& weights = to.weights;
  auto block = std::make_unique<SharedBlock>();
  const kernels::AttentionShape& shape = attention.shape;
  const int64_t joined = 2 * int64_t{to.n_embd};
  const int64_t q_dim = int64_t{shape.n_heads} * shape.head_dim;
  const int64_t kv_dim = int64_t{shape.n_kv_heads} * shape.head_dim;
  block->shape_ = shape;
  block->block_ = to.block;
  block->n_embd_ = to.n_embd;
  block->n_ff_ = n_ff;
  block->norm_eps_ = to.norm_eps;
  if (shape.rope_dims > 0) {
    const float magnitude = attention.scaling.magnitude();
    block->shape_.scale *= magnitude * magnitude;
    bind_rope(attention, weights, block->shape_, block->divisors_);
  }
  const std::string prefix = "shared." + std::to_string(shared) + ".";
  block->attention_norm_ = weights.vector(prefix + "attn_norm.weight", joined);
  block->network_norm_ = weights.vector(prefix + "ffn_norm.weight", to.n_embd);
  block->q_ = weights.fixed_matrix(prefix + "attn_q.weight", q_dim, joined);
  block->k_ = weights.fixed_matrix(prefix + "attn_k.weight", kv_dim, joined);
  block->v_ = weights.fixed_matrix(prefix + "attn_v.weight", kv_dim, joined);
  block->out_ = weights.fixed_matrix(prefix + "attn_output.weight", to.n_embd, q_dim);
  block->gate_ = weights.fixed_matrix(prefix + "ffn_gate.weight", n_ff, to.n_embd);
  block->up_ = weights.fixed_matrix(prefix + "ffn_up.weight", n_ff, to.n_embd);
  block->down_ = weights.fixed_matrix(prefix + "ffn_down.weight", to.n_embd, n_ff);
  block->mixer_norm_ = weights.vector(to.tensor("attn_norm.weight"), to.n_embd);
  block->join_ = weights.matrix(to.tensor("shared_out.weight"), to.n_embd, to.n_embd);
  const auto low_rank = [&](const std::string& name, int64_t n_out, int64_t n_in) {
    SharedBlock::LowRank own;
    const std::string a = to.tensor(name + "_a.weight");
    if (!weights.has(a)) return own;
    const int64_t rank = weights.rows_of(a);
    block->rank_ = std::max(block->rank_, rank);
    own.a = weights.matrix(a, rank, n_in);
    own.b = weights.matrix(to.tensor(name + "_b.weight"), n_out, rank);
    return own;
  };
  block->own_q_ = low_rank("attn_q_adapter", q_dim, joined);
  block->own_k_ = low_rank("attn_k_adapter", kv_dim, joined);
  block->own_v_ = low_rank("attn_v_adapter", kv_dim, joined);
  const SharedBlock::LowRank both = low_rank("ffn_adapter", 2 * int64_t{n_ff}, to.n_embd);
  block->own_gate_ = {both.a, both.b.rows_from(0, n_ff)};
  block->own_up_ = {both.a, both.b.rows_from(n_ff, n_ff)};
  block->mamba_ = mamba.bind(to);
  return block;
}

Status SharedBlock::place(Placement& to) {
  for (WeightView* w : {&q_, &k_, &v_, &out_, &gate_, &up_, &down_}) {
    CHIMERE_TRY(*w, to.place_once(*w));
  }
  CHIMERE_TRY(join_, to.ops.place(join_));
  for (LowRank* own : {&own_q_, &own_k_, &own_v_, &own_gate_, &own_up_}) {
    if (own->a.data == nullptr) continue;
    CHIMERE_TRY(own->a, to.place_once(own->a));
    CHIMERE_TRY(own->b, to.ops.place(own->b));
  }
  CHIMERE_TRY(attention_norm_, to.ops.place_floats(attention_norm_, 2 * int64_t{n_embd_}));
  for (const float** norm : {&network_norm_, &mixer_norm_}) {
    CHIMERE_TRY(*norm, to.ops.place_floats(*norm, n_embd_));
  }
  return mamba_->place(to);
}

Status SharedBlock::add_state(StateBuilder& states) {
  CHIMERE_CHECK_OK(states.add_kv(block_, shape_, kv_));
  return mamba_->add_state(states);
}

SharedBlock::Buffers SharedBlock::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.joined = at.matrix(rows, 2 * int64_t{n_embd_});
  b.q = at.matrix(rows, q_.n_out);
  b.k = at.matrix(rows, k_.n_out);
  b.v = at.matrix(rows, v_.n_out);
  b.attention = at.matrix(rows, q_.n_out);
  b.block = at.matrix(rows, n_embd_);
  b.gate = at.matrix(rows, n_ff_);
  b.up = at.matrix(rows, n_ff_);
  for (MatrixView& inner : b.inner) inner = at.matrix(rows, rank_);
  return b;
}

void SharedBlock::lay_out(BufferLayout& at, int64_t rows) const {
  at.matrix(rows, n_embd_);  // the input of Mamba 2; the rest is used by the block, then by Mamba 2
  BufferLayout of_block = at;
  buffers(of_block, rows);
  mamba_->lay_out(at, rows);
  at.skip_past(of_block);
}

GpuScratch SharedBlock::gpu_scratch() const {
  GpuScratch scratch = mamba_->gpu_scratch();
  scratch.widest = std::max({scratch.widest, 2 * int64_t{n_embd_}, q_.n_out, int64_t{n_ff_}});
  return scratch;
}

void SharedBlock::project(kernels::Ops& ops, const kernels::Operand& h,
                          std::span<const Adapted> jobs, const MatrixView* inner) {
  std::array<kernels::LinearJob, 2 * kMaxAdapted> from_h;
  size_t n = 0;
  for (const Adapted& job : jobs) from_h[n++] = {job.shared, job.y};
  const void* last = nullptr;  // A is shared by consecutive jobs
  for (size_t i = 0; i < jobs.size(); ++i) {
    const WeightView& a = jobs[i].own.a;
    if (a.data == nullptr || a.data == last) continue;
    last = a.data;
    from_h[n++] = {a, part_of_rows(inner[i], 0, a.n_out)};
  }
  ops.linear(h, std::span(from_h).first(n));
  size_t of = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const LowRank& own = jobs[i].own;
    if (own.a.data == nullptr) continue;
    if (i > 0 && own.a.data != jobs[of].own.a.data) of = i;
    const kernels::LinearJob add[] = {{own.b, jobs[i].y, /*accumulate=*/true}};
    ops.linear(part_of_rows(inner[of], 0, own.a.n_out), add);
  }
}

void SharedBlock::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  constexpr kernels::StepRows kAll = kernels::StepRows::kAll;
  BufferLayout at = rows.buffers;
  const MatrixView input = at.matrix(rows.x.rows, n_embd_);
  BufferLayout of_block = at;
  const Buffers b = buffers(of_block, rows.x.rows);
  ops.copy(rows.x, part_of_rows(b.joined, 0, n_embd_));
  ops.copy(rows.embedding, part_of_rows(b.joined, n_embd_, n_embd_));
  const kernels::Operand joined =
      ops.rms_norm(b.joined, attention_norm_, norm_eps_, b.joined, kAll);
  const Adapted heads[] = {{q_, own_q_, b.q}, {k_, own_k_, b.k}, {v_, own_v_, b.v}};
  project(ops, joined, heads, b.inner);
  ops.qk_norm_rope_append(rows.batch, shape_, nullptr, nullptr, norm_eps_, b.q, b.k, b.v, kv_);
  const kernels::LinearJob out[] = {{out_, b.block}};
  ops.linear(ops.attend(rows.batch, shape_, b.q, kv_, b.attention), out);
  const kernels::Operand attended = ops.rms_norm(b.block, network_norm_, norm_eps_, b.block, kAll);
  const Adapted network[] = {{gate_, own_gate_, b.gate}, {up_, own_up_, b.up}};
  project(ops, attended, network, b.inner);
  const kernels::LinearJob down[] = {{down_, b.block}};
  ops.linear(ops.activate(kernels::Activation::kGeluErf, b.gate, b.up, kAll), down);
  ops.copy(rows.x, input);
  const kernels::LinearJob join[] = {{join_, input, /*accumulate=*/true}};
  ops.linear(b.block, join);
  SubLayerRows of_mamba = rows;
  of_mamba.h = ops.rms_norm(input, mixer_norm_, norm_eps_, input, kAll);
  of_mamba.buffers = at;
  mamba_->forward(of_mamba);
}

}  // namespace chimere::model
