// The block that predicts the token after the next one (multi-token prediction, DeepSeek-V3, arXiv:
// 2412.19437, section 2.2), as Qwen3-Next and Qwen3.5 have it behind their last layer ("nextn").
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

/// Its input for a token t behind a row with the hidden state s (what the model's head sees, so
/// normalised) is eh_proj [rms_norm(embedding of t), rms_norm(s)]; then it is a layer of attention
/// with a head of its own or the model's. Row r of a step stands for the token of r and the hidden
/// state of the row before; its keys and values lie at the position of r. (The trainer counts from
/// the hidden state; rotary attention sees differences alone.) The first token of a text meets a
/// hidden state of zeros.
struct MtpBlock {
  WeightView embedding;                   ///< [n_vocab, n_embd]
  const float* embedding_norm = nullptr;  ///< [n_embd]
  const float* hidden_norm = nullptr;     ///< [n_embd]
  WeightView join;                        ///< [n_embd, 2 n_embd]
  const float* attention_norm = nullptr;  ///< [n_embd]
  SelfAttention attention;                ///< with its pages
  const float* ffn_norm = nullptr;        ///< [n_embd]
  FeedForward ffn;
  const float* head_norm = nullptr;    ///< [n_embd]
  WeightView head;                     ///< [n_short, n_embd] the first rows of the head
  kernels::RecurrentView last_hidden;  ///< [n_embd] of each slot

  /// `block` is the tensors' prefix, "blk.40."; the last three are the model's own, for where the
  /// block has none. Binds everything; what is not run is checked all the same. `draft_tokens`: see
  /// ModelOptions.
  static MtpBlock bind(WeightBinder& bind, const std::string& block, const Hparams& h,
                       const WeightView& embedding, const float* output_norm,
                       const WeightView& output, int64_t draft_tokens);

  /// Rows of the head that drafts are chosen from, in a vocabulary of so many tokens.
  static int64_t short_list(int64_t n_vocab);

  /// Puts the weights where ops read them; once. Of the embedding table a token needs one row: it
  /// stays in the file. `output` is the model's head as bound, `placed` as ops read it: where it is
  /// this block's too it is not placed again. Errors: those of Ops::place().
  Status place(kernels::Ops& ops, const Hparams& h, const WeightView& output,
               const WeightView& placed);

  /// Appends keys and values of rows whose hidden state before is in buffers.mtp.before. Uses
  /// buffers.all but for x of no other purpose.
  void append(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
              std::span<const int32_t> tokens, const StepBuffers& buffers) const;
  /// The whole block for such rows: buffers.mtp.hidden, and logits [rows, n_short].
  void predict(kernels::Ops& ops, const Hparams& h, const kernels::BatchView& batch,
               std::span<const int32_t> tokens, const StepBuffers& buffers,
               MatrixView logits) const;

 private:
  /// all.x = the block's input, all.h = it normalised for the attention.
  void join_rows(kernels::Ops& ops, const Hparams& h, std::span<const int32_t> tokens,
                 const StepBuffers& buffers) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MTP_H_
