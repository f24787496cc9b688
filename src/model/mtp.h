// The MTP head, which predicts the token after the next one (multi-token prediction, DeepSeek-V3,
// arXiv:2412.19437, section 2.2), as Qwen3-Next and Qwen3.5 store it after their last layer
// ("nextn").
#ifndef CHIMERE_MODEL_MTP_H_
#define CHIMERE_MODEL_MTP_H_

#include <cstdint>
#include <string>

#include "kernels/api.h"
#include "model/activations.h"
#include "model/layers/feed_forward.h"
#include "model/layers/self_attention.h"
#include "model/weight_binder.h"

namespace chimere::model {

/// Its input for a token t that follows a row with hidden state s (what the output head reads, so
/// normalised) is eh_proj [rms_norm(embedding of t), rms_norm(s)]; then follow one attention layer
/// and a head, its own or the model's. Row r of a step combines the token of r with the hidden
/// state of the previous row; its KV lies at the position of r. (The trainer counts positions from
/// the hidden state; rotary attention depends on differences only.) The first token of a text is
/// combined with zeros.
struct MtpBlock {
  WeightView embedding;                   ///< [n_vocab, n_embd]
  const float* embedding_norm = nullptr;  ///< [n_embd]
  const float* hidden_norm = nullptr;     ///< [n_embd]
  WeightView join;                        ///< [n_embd, 2 n_embd]
  const float* attention_norm = nullptr;  ///< [n_embd]
  SelfAttention attention;                ///< with its KV pages
  const float* ffn_norm = nullptr;        ///< [n_embd]
  FeedForward ffn;
  const float* head_norm = nullptr;    ///< [n_embd]
  WeightView head;                     ///< [n_short, n_embd] the first rows of the output head
  kernels::RecurrentView last_hidden;  ///< [n_embd] of each slot

  /// `block` is the tensors' prefix, "blk.40."; the last three weights are the model's, used where
  /// the block has none of its own. Binds and checks every tensor, including those that are not
  /// run. `draft_tokens`: see ModelOptions.
  static MtpBlock bind(WeightBinder& bind, const std::string& block, const Hparams& h,
                       const WeightView& embedding, const float* output_norm,
                       const WeightView& output, int64_t draft_tokens);

  /// Default number of head rows, and so of tokens, that drafts are chosen from.
  static int64_t short_list(int64_t n_vocab);

  /// Puts the weights where ops read them; call once. The embedding table stays in the mapped file:
  /// a token needs one row of it. `output` is the model's head as bound, `placed` the same as ops
  /// read it; if the block shares it, it is not placed again. Errors: those of Ops::place().
  Status place(kernels::Ops& ops, const Hparams& h, const WeightView& output,
               const WeightView& placed);

  /// Appends the KV of rows whose previous hidden state is in buffers.mtp.before. Uses buffers.all
  /// as scratch memory, except x.
  void append(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
              std::span<const int32_t> tokens, const StepBuffers& buffers) const;
  /// The whole block for such rows: writes buffers.mtp.hidden and logits [rows, n_short].
  void predict(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
               std::span<const int32_t> tokens, const StepBuffers& buffers,
               MatrixView logits) const;

 private:
  /// all.x = the block's input, all.h = the same, normalised for attention.
  void join_rows(kernels::Ops& ops, const Hparams& h, std::span<const int32_t> tokens,
                 const StepBuffers& buffers) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MTP_H_
