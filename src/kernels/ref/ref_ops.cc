#include <memory>

#include "kernels/api.h"
#include "kernels/ref/kv_page.h"
#include "kernels/ref/linear.h"
#include "kernels/ref/moe.h"
#include "kernels/ref/vector_ops.h"
#include "kernels/rope.h"

namespace chimere::kernels {
namespace {

class RefOps final : public Ops {
 public:
  void embed(const PlacedTable& placed, std::span<const int32_t> tokens, ConstMatrixView vectors,
             MatrixView y) override {
    ref::embed(placed.table, tokens, vectors, y);
  }

  Operand rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y,
                   StepRows rows) override {
    ref::rms_norm(x, weight, eps, y);
    return {y, rows};
  }

  void linear(const Operand& x, std::span<const LinearJob> jobs) override {
    ref::linear(x.x, jobs, &adapters_, x.rows == StepRows::kWanted);
  }

  void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
                RecurrentView state, MatrixView qkv) override {
    ref::gdn_conv(batch, shape, weight, eps, state, qkv);
  }

  void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
                RecurrentView state, MatrixView out) override {
    ref::gdn_scan(batch, shape, qkv, alpha, beta, a, dt_bias, state, out);
  }

  void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight, int head_dim,
                      float eps, MatrixView y) override {
    ref::gated_rms_norm(x, z, weight, head_dim, eps, y);
  }

  int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) const override {
    return ref::kv_page_bytes(shape, k_type, v_type);
  }
  uint32_t kv_layout() const override { return ref::kKvLayout; }

  void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape, const float* q_norm,
                           const float* k_norm, float eps, MatrixView qg, ConstMatrixView k,
                           ConstMatrixView v, KvView kv) override {
    if (shape.rope_dims > 0) {
      rope_.prepare(batch.row_position, shape.rope_dims, shape.rope_base, shape.rope_factors);
    }
    ref::qk_norm_rope_append(batch, shape, rope_, q_norm, k_norm, eps, qg, k, v, kv);
  }

  Operand attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg, KvView kv,
                 MatrixView out) override {
    ref::attend(batch, shape, qg, kv, out);
    return prepare(out, StepRows::kAll);
  }

  Operand activate(Activation f, MatrixView h, ConstMatrixView up, StepRows rows) override {
    ref::activate(f, h, up);
    return prepare(h, rows);
  }

  void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing) override {
    ref::route(logits, spec, routing);
  }

  void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) override {
    ref::top_logits(logits, masks, top);
  }

  void moe_ffn(const Operand& x, const PlacedExperts& experts, const Routing& routing,
               const float* shared_gate, const MoeOptions& options, MatrixView y) override {
    ref::moe_ffn(x.x, experts.routed, routing, experts.shared ? &*experts.shared : nullptr,
                 shared_gate, options, y, &adapters_, x.rows == StepRows::kWanted);
  }

 private:
  RopeTable rope_;
};

}  // namespace

std::unique_ptr<Ops> make_ref_ops() { return std::make_unique<RefOps>(); }

}  // namespace chimere::kernels
