#include "model/layers/mtp_head.h"

#include <algorithm>
#include <vector>

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

int64_t MtpHead::short_list(int64_t n_vocab) {
  return std::min(n_vocab, std::max(kMinDraftTokens, n_vocab / kDraftShare));
}

std::unique_ptr<MtpHead> MtpSpec::bind(const SubLayerBinding& to,
                                       const SharedWeights& shared) const {
  WeightBinder& weights = to.weights;
  const auto vector = [&](const char* name) { return weights.vector(to.tensor(name), to.n_embd); };
  auto mtp = std::make_unique<MtpHead>();
  mtp->block_ = to.block;
  mtp->n_embd_ = to.n_embd;
  mtp->norm_eps_ = to.norm_eps;
  mtp->attention_norm_ = vector("attn_norm.weight");
  mtp->attention_ = attention.bind(to);
  mtp->network_norm_ = vector("post_attention_norm.weight");
  mtp->network_ = network.bind(to);
  mtp->parts_[0] = mtp->attention_.get();
  mtp->parts_[1] = mtp->network_.get();
  mtp->join_ = weights.matrix(to.tensor("nextn.eh_proj.weight"), to.n_embd, int64_t{2} * to.n_embd);
  mtp->embedding_norm_ = vector("nextn.enorm.weight");
  mtp->hidden_norm_ = vector("nextn.hnorm.weight");
  const auto matrix_or = [&](const char* name, const WeightView& otherwise) {
    const std::string tensor = to.tensor(name);
    return weights.has(tensor) ? weights.matrix(tensor, shared.n_vocab, to.n_embd) : otherwise;
  };
  mtp->own_embedding_ = matrix_or("nextn.embed_tokens.weight", {});
  const int64_t wanted = to.options.draft_tokens;
  mtp->head_ = matrix_or("nextn.shared_head_head.weight", shared.output)
                   .rows_from(0, wanted > 0 ? std::min(shared.n_vocab, wanted)
                                            : MtpHead::short_list(shared.n_vocab));
  const bool own_norm = weights.has(to.tensor("nextn.shared_head_norm.weight"));
  mtp->head_norm_ = own_norm ? vector("nextn.shared_head_norm.weight") : shared.output_norm;
  return mtp;
}

Status MtpHead::place(Placement& to, const WeightView& output, const WeightView& placed,
                      const kernels::PlacedTable& table) {
  kernels::Ops& ops = to.ops;
  for (const float** norm :
       {&embedding_norm_, &hidden_norm_, &attention_norm_, &network_norm_, &head_norm_}) {
    CHIMERE_TRY(*norm, ops.place_floats(*norm, n_embd_));
  }
  CHIMERE_TRY(join_, ops.place(join_));
  for (SubLayer* part : parts_) CHIMERE_CHECK_OK(part->place(to));
  table_ = &table;
  if (own_embedding_.data != nullptr) {
    CHIMERE_TRY(own_table_, ops.place_table(own_embedding_));
    table_ = own_table_.get();
  }
  if (head_.data == output.data) {
    head_.data = placed.data;
    return {};
  }
  CHIMERE_TRY(head_, ops.place(head_));
  return {};
}

Status MtpHead::add_state(StateBuilder& states) {
  CHIMERE_CHECK_OK(attention_->add_state(states));
  states.add_recurrent(block_, n_embd_, n_embd_, last_hidden_);
  return {};
}

MtpHead::Buffers MtpHead::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.hidden = at.matrix(rows, n_embd_);
  b.before = at.matrix(rows, n_embd_);
  b.token = at.matrix(rows, n_embd_);
  b.joined = at.matrix(rows, int64_t{2} * n_embd_);
  return b;
}

void MtpHead::shift(kernels::Ops& ops, const kernels::BatchView& batch, ConstMatrixView hidden,
                    const Buffers& b) const {
  ops.shift_rows(batch, hidden, last_hidden_, b.before);
}

SubLayerRows MtpHead::join_rows(const SubLayerRows& rows, std::span<const int32_t> tokens,
                                const Buffers& b) const {
  kernels::Ops& ops = rows.ops;
  ops.embed(*table_, tokens, {}, b.token);
  ops.rms_norm(b.token, embedding_norm_, norm_eps_, columns(b.joined, 0, n_embd_),
               kernels::StepRows::kAll);
  ops.rms_norm(b.before, hidden_norm_, norm_eps_, columns(b.joined, n_embd_, n_embd_),
               kernels::StepRows::kAll);
  const kernels::LinearJob input[] = {{join_, rows.x}};
  ops.linear(b.joined, input);
  SubLayerRows normed = rows;
  normed.h = ops.rms_norm(rows.x, attention_norm_, norm_eps_, b.h, kernels::StepRows::kAll);
  return normed;
}

void MtpHead::append(const SubLayerRows& rows, std::span<const int32_t> tokens,
                     const Buffers& b) const {
  const SubLayerRows joined = join_rows(rows, tokens, b);
  std::vector<kernels::LinearJob> jobs;
  attention_->project_append(joined, jobs);
  joined.ops.linear(joined.h, jobs);
  attention_->append(joined);
}

void MtpHead::predict(const SubLayerRows& rows, std::span<const int32_t> tokens, const Buffers& b,
                      MatrixView logits) const {
  kernels::Ops& ops = rows.ops;
  SubLayerRows normed = join_rows(rows, tokens, b);
  attention_->forward(normed);
  normed.h = ops.rms_norm(rows.x, network_norm_, norm_eps_, b.h, kernels::StepRows::kAll);
  network_->forward(normed);
  const kernels::Operand hidden =
      ops.rms_norm(rows.x, head_norm_, norm_eps_, b.hidden, kernels::StepRows::kAll);
  const kernels::LinearJob output[] = {{head_, logits}};
  ops.linear(hidden, output);
}

}  // namespace chimere::model
