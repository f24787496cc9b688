#include "model/mtp.h"

#include <algorithm>
#include <variant>

namespace chimere::model {
namespace {

/// The rows of the head that drafts are chosen from. BPE vocabularies are in order of their merges,
/// so the first tokens are the most frequent; reading the rest of the head costs more than the
/// drafts that it would add.
constexpr int64_t kMinDraftTokens = 4096;
constexpr int64_t kDraftShare = 8;

MatrixView columns(const MatrixView& m, int64_t begin, int64_t count) {
  return {m.data + begin, m.rows, count, m.stride};
}

}  // namespace

int64_t MtpBlock::short_list(int64_t n_vocab) {
  return std::min(n_vocab, std::max(kMinDraftTokens, n_vocab / kDraftShare));
}

MtpBlock MtpBlock::bind(WeightBinder& bind, const std::string& block, const Hparams& h,
                        const WeightView& embedding, const float* output_norm,
                        const WeightView& output, int64_t draft_tokens) {
  MtpBlock b;
  b.attention_norm = bind.vector(block + "attn_norm.weight", h.n_embd);
  b.attention = SelfAttention::bind(bind, block, h);
  b.ffn_norm = bind.vector(block + "post_attention_norm.weight", h.n_embd);
  if (h.n_ff > 0) {
    b.ffn = DenseFfn::bind(bind, block, h);
  } else {
    b.ffn = Moe::bind(bind, block, h);
  }
  const std::string nextn = block + "nextn.";
  b.join = bind.matrix(nextn + "eh_proj.weight", h.n_embd, int64_t{2} * h.n_embd);
  b.embedding_norm = bind.vector(nextn + "enorm.weight", h.n_embd);
  b.hidden_norm = bind.vector(nextn + "hnorm.weight", h.n_embd);
  const auto matrix_or = [&](const char* name, const WeightView& otherwise) {
    return bind.has(nextn + name) ? bind.matrix(nextn + name, h.n_vocab, h.n_embd) : otherwise;
  };
  b.embedding = matrix_or("embed_tokens.weight", embedding);
  b.head = matrix_or("shared_head_head.weight", output)
               .rows_from(0, draft_tokens > 0 ? std::min<int64_t>(h.n_vocab, draft_tokens)
                                              : short_list(h.n_vocab));
  const std::string norm = nextn + "shared_head_norm.weight";
  b.head_norm = bind.has(norm) ? bind.vector(norm, h.n_embd) : output_norm;
  return b;
}

Status MtpBlock::place(kernels::Ops& ops, const Hparams& h, const WeightView& output,
                       const WeightView& placed) {
  for (const float** norm :
       {&embedding_norm, &hidden_norm, &attention_norm, &ffn_norm, &head_norm}) {
    CHIMERE_TRY(*norm, ops.place_floats(*norm, h.n_embd));
  }
  CHIMERE_TRY(join, ops.place(join));
  CHIMERE_CHECK_OK(attention.place(ops, h));
  CHIMERE_CHECK_OK(std::visit([&](auto& net) { return net.place(ops); }, ffn));
  if (head.data == output.data) {
    head.data = placed.data;
    return {};
  }
  CHIMERE_TRY(head, ops.place(head));
  return {};
}

void MtpBlock::join_rows(kernels::Ops& ops, const Hparams& h, std::span<const int32_t> tokens,
                         const StepBuffers& buffers) const {
  const MtpBuffers& b = buffers.mtp;
  ops.embed(embedding, tokens, {}, b.token);
  ops.rms_norm(b.token, embedding_norm, h.norm_eps, columns(b.joined, 0, h.n_embd));
  ops.rms_norm(b.before, hidden_norm, h.norm_eps, columns(b.joined, h.n_embd, h.n_embd));
  const kernels::LinearJob input[] = {{join, buffers.all.x}};
  ops.linear(b.joined, input);
  ops.rms_norm(buffers.all.x, attention_norm, h.norm_eps, buffers.all.h);
}

void MtpBlock::append(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
                      std::span<const int32_t> tokens, const StepBuffers& buffers) const {
  join_rows(ops, h, tokens, buffers);
  attention.append(ops, h, batch, buffers.all);
}

void MtpBlock::predict(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
                       std::span<const int32_t> tokens, const StepBuffers& buffers,
                       MatrixView logits) const {
  join_rows(ops, h, tokens, buffers);
  attention.forward(ops, h, batch, buffers.all);
  ops.rms_norm(buffers.all.x, ffn_norm, h.norm_eps, buffers.all.h);
  std::visit([&](const auto& net) { net.forward(ops, buffers.all); }, ffn);
  ops.rms_norm(buffers.all.x, head_norm, h.norm_eps, buffers.mtp.hidden);
  const kernels::LinearJob output[] = {{head, logits}};
  ops.linear(buffers.mtp.hidden, output);
}

}  // namespace chimere::model
