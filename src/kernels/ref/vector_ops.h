// The scalar oracle of every op that is not a matrix product: docs/numerics.md as plain loops.
// Each function is the Ops member of the same name.
#ifndef CHIMERE_KERNELS_REF_VECTOR_OPS_H_
#define CHIMERE_KERNELS_REF_VECTOR_OPS_H_

#include <cstdint>
#include <span>

#include "kernels/api.h"
#include "kernels/rope.h"
#include "tensor/view.h"

namespace chimere::kernels::ref {

/// Rule 2 for x · y, n elements.
float dot16(const float* x, const float* y, int64_t n);

void embed(const WeightView& table, std::span<const int32_t> tokens, ConstMatrixView vectors,
           MatrixView y);

void rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y);

void layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps, MatrixView y);

void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight, int head_dim,
                    float eps, MatrixView y);

void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
              RecurrentView state, MatrixView qkv);

void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
              ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
              RecurrentView state, MatrixView out);

int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type);

/// `rope` must be prepared for the positions of the batch if shape.rope_dims is not 0.
void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape, const RopeTable& rope,
                         const float* q_norm, const float* k_norm, float eps, MatrixView qg,
                         ConstMatrixView k, ConstMatrixView v, KvView kv);

void attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg, KvView kv,
            MatrixView out);

/// `rope` as above.
void attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape,
                      const RopeTable& rope, MatrixView q, MatrixView k, ConstMatrixView v,
                      MatrixView out);

void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing);

void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top);

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_VECTOR_OPS_H_
