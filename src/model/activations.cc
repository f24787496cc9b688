#include "model/activations.h"

#include <algorithm>

namespace chimere::model {
namespace {

/// Hands out 64-byte aligned pieces of a block one after the other; without a block it only
/// measures.
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

  int64_t used() const { return used_; }
  void rewind(int64_t used) { used_ = used; }

 private:
  uint8_t* base_;
  int64_t used_ = 0;
};

Activations lay_out_at(Cursor& at, const Hparams& h, int64_t rows, int64_t wanted) {
  Activations a;
  a.x = at.matrix(rows, h.n_embd);
  a.h = at.matrix(rows, h.n_embd);

  const int64_t mixers = at.used();
  const kernels::GdnShape& g = h.delta_net;
  a.delta_net.qkv = at.matrix(rows, g.conv_dim());
  a.delta_net.z = at.matrix(rows, g.value_dim());
  a.delta_net.alpha = at.matrix(rows, g.n_v_heads);
  a.delta_net.beta = at.matrix(rows, g.n_v_heads);
  a.delta_net.out = at.matrix(rows, g.value_dim());
  const int64_t after_delta_net = at.used();
  at.rewind(mixers);
  const kernels::AttentionShape& s = h.attention;
  a.attention.qg = at.matrix(rows, int64_t{2} * s.n_heads * s.head_dim);
  a.attention.k = at.matrix(rows, int64_t{s.n_kv_heads} * s.head_dim);
  a.attention.v = at.matrix(rows, int64_t{s.n_kv_heads} * s.head_dim);
  a.attention.out = at.matrix(rows, int64_t{s.n_heads} * s.head_dim);
  at.rewind(std::max(at.used(), after_delta_net));

  a.moe.router = at.matrix(rows, h.moe.n_experts);
  a.moe.routing.n_used = h.moe.n_used;
  a.moe.routing.ids = at.take<int32_t>(rows * h.moe.n_used);
  a.moe.routing.weights = at.take<float>(rows * h.moe.n_used);
  a.moe.shared_gate = at.matrix(rows, 1);

  a.head = at.matrix(wanted, h.n_embd);
  a.logits = at.matrix(wanted, h.n_vocab);
  return a;
}

}  // namespace

Result<Workspace> Workspace::create(const Hparams& h, int max_rows) {
  Cursor measure(nullptr);
  lay_out_at(measure, h, max_rows, max_rows);
  const auto bytes = static_cast<size_t>(measure.used());
  Workspace workspace;
  CHIMERE_TRY(workspace.memory_, ReservedMemory::reserve(bytes));
  CHIMERE_CHECK_OK(workspace.memory_.commit(bytes));
  return workspace;
}

Activations Workspace::lay_out(const Hparams& h, int64_t rows, int64_t wanted) const {
  Cursor at(memory_.data());
  return lay_out_at(at, h, rows, wanted);
}

}  // namespace chimere::model
