#include "model/activations.h"

#include <algorithm>

namespace chimere::model {
namespace {

/// Hands out 64-byte aligned pieces of a block in sequence; without a block it only measures.
class Cursor {
 public:
  explicit Cursor(uint8_t* base) : base_(base) {}

  template <typename T>
  T* take(int64_t n) {
    uint8_t* const p = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(p);
  }
  MatrixView matrix(int64_t rows, int64_t cols) {
    return {take<float>(rows * cols), rows, cols, cols};
  }

  /// Lays out several alternative sets of buffers over the same memory.
  template <typename... LayOut>
  void overlay(const LayOut&... lay_out) {
    const int64_t begin = used_;
    int64_t end = begin;
    (
        [&] {
          used_ = begin;
          lay_out();
          end = std::max(end, used_);
        }(),
        ...);
    used_ = end;
  }

  int64_t used() const { return used_; }

 private:
  uint8_t* base_;
  int64_t used_ = 0;
};

void lay_out_delta_net(Cursor& at, const kernels::GdnShape& g, int64_t rows, DeltaNetBuffers& b) {
  b.qkv = at.matrix(rows, g.conv_dim());
  b.z = at.matrix(rows, g.value_dim());
  b.alpha = at.matrix(rows, g.n_v_heads);
  b.beta = at.matrix(rows, g.n_v_heads);
  b.out = at.matrix(rows, g.value_dim());
}

void lay_out_attention(Cursor& at, const kernels::AttentionShape& s, int64_t rows,
                       AttentionBuffers& b) {
  b.qg = at.matrix(rows, int64_t{s.n_heads} * s.query_stride());
  b.k = at.matrix(rows, int64_t{s.n_kv_heads} * s.head_dim);
  b.v = at.matrix(rows, int64_t{s.n_kv_heads} * s.head_dim);
  b.out = at.matrix(rows, int64_t{s.n_heads} * s.head_dim);
}

void lay_out_feed_forward(Cursor& at, const Hparams& h, int64_t rows, Activations& a) {
  if (h.n_ff > 0) {
    a.dense.gate = at.matrix(rows, h.n_ff);
    a.dense.up = at.matrix(rows, h.n_ff);
    return;
  }
  a.moe.router = at.matrix(rows, h.moe.n_experts);
  a.moe.routing.n_used = h.moe.n_used;
  a.moe.routing.ids = at.take<int32_t>(rows * h.moe.n_used);
  a.moe.routing.weights = at.take<float>(rows * h.moe.n_used);
  a.moe.shared_gate = at.matrix(rows, 1);
}

StepBuffers lay_out_at(Cursor& at, const Hparams& h, int64_t rows, int64_t wanted) {
  StepBuffers step;
  step.chosen = at.take<int32_t>(kernels::kMaxChoices);
  Activations& all = step.all;
  all.x = at.matrix(rows, h.n_embd);
  step.wanted.x = at.matrix(wanted, h.n_embd);
  at.overlay([&] { all.h = at.matrix(rows, h.n_embd); },
             [&] { step.wanted.h = at.matrix(wanted, h.n_embd); });
  at.overlay([&] { lay_out_delta_net(at, h.delta_net, rows, all.delta_net); },
             [&] { lay_out_attention(at, h.attention, rows, all.attention); },
             [&] { lay_out_feed_forward(at, h, rows, all); },
             [&] { lay_out_feed_forward(at, h, wanted, step.wanted); });
  step.mtp.hidden = at.matrix(rows, h.n_embd);
  step.mtp.before = at.matrix(rows, h.n_embd);
  step.mtp.token = at.matrix(rows, h.n_embd);
  step.mtp.joined = at.matrix(rows, int64_t{2} * h.n_embd);
  step.logits = at.matrix(wanted, h.n_outputs());
  step.top = at.take<kernels::TopLogit>(wanted * kernels::kMaxTopLogits);
  step.selected = at.take<float>(wanted * kernels::kMaxSelectedLogits);
  step.sums = at.take<kernels::LogSumExp>(wanted);
  return step;
}

}  // namespace

int64_t Workspace::bytes(const Hparams& h, int64_t rows, int64_t wanted) {
  Cursor measure(nullptr);
  lay_out_at(measure, h, rows, wanted);
  return measure.used();
}

Result<Workspace> Workspace::create(const Hparams& h, int max_rows, Memory& memory) {
  Workspace workspace;
  CHIMERE_TRY(workspace.range_, memory.reserve(static_cast<size_t>(bytes(h, max_rows, max_rows))));
  return workspace;
}

Result<StepBuffers> Workspace::lay_out(const Hparams& h, int64_t rows, int64_t wanted) {
  CHIMERE_CHECK_OK(range_->commit(static_cast<size_t>(bytes(h, rows, wanted))));
  Cursor at(range_->data());
  return lay_out_at(at, h, rows, wanted);
}

}  // namespace chimere::model
