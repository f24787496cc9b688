// The MTP head, which predicts the token after the next one (multi-token prediction, DeepSeek-V3,
// arXiv:2412.19437, section 2.2), as Qwen3-Next and Qwen3.5 store it after their last layer
// ("nextn").
#ifndef CHIMERE_MODEL_LAYERS_MTP_HEAD_H_
#define CHIMERE_MODEL_LAYERS_MTP_HEAD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/api.h"
#include "model/buffer_layout.h"
#include "model/layers/self_attention.h"
#include "model/state_builder.h"
#include "model/sub_layer.h"
#include "tensor/view.h"

namespace chimere::model {

/// The model's weights that a head may share.
struct SharedWeights {
  int64_t n_vocab = 0;
  const float* output_norm = nullptr;  ///< [n_embd]
  WeightView output;                   ///< [n_vocab, n_embd]
};

/// Its input for a token t that follows a row with hidden state s (what the output head reads, so
/// normalised) is eh_proj [rms_norm(embedding of t), rms_norm(s)]; then follow one attention layer
/// and a head, its own or the model's. Row r of a step combines the token of r with the hidden
/// state of the previous row; its KV lies at the position of r. (The trainer counts positions from
/// the hidden state; rotary attention depends on differences only.) The first token of a text is
/// combined with zeros.
class MtpHead {
 public:
  /// Each [rows, ...].
  struct Buffers {
    MatrixView hidden;  ///< n_embd: what the output head reads, of the main model or of this head
    MatrixView before;  ///< n_embd: `hidden` of the previous row
    MatrixView token;   ///< n_embd: embedding of the row's token
    MatrixView joined;  ///< 2 * n_embd: token and `before`, each normalised
    MatrixView h;       ///< n_embd: memory of the sub-layers' input, RowBuffers::h
  };

  /// Default number of head rows, and so of tokens, that drafts are chosen from.
  static int64_t short_list(int64_t n_vocab);

  /// Puts the weights where ops read them; call once. `output` is the model's head as bound,
  /// `placed` the same as ops read it, `table` the model's embedding table, which must outlive the
  /// head; what the head shares is not placed again. Errors: those of Ops::place().
  Status place(Placement& to, const WeightView& output, const WeightView& placed,
               const kernels::PlacedTable& table);
  Status add_state(StateBuilder& states);
  Buffers buffers(BufferLayout& at, int64_t rows) const;
  /// Its attention and its network.
  std::span<SubLayer* const> sub_layers() const { return parts_; }
  GpuScratch gpu_scratch() const { return {.widest = join_.n_in}; }
  int64_t n_short() const { return head_.n_out; }

  /// b.before = the hidden state before each row; the state after each row = `hidden`, where the
  /// batch keeps it.
  void shift(kernels::Ops& ops, const kernels::BatchView& batch, ConstMatrixView hidden,
             const Buffers& b) const;
  /// Appends the KV of rows whose previous hidden state is in b.before. Overwrites rows.x and b.h;
  /// does not read rows.h.
  void append(const SubLayerRows& rows, std::span<const int32_t> tokens, const Buffers& b) const;
  /// The whole head for such rows: writes b.hidden and logits [rows, n_short].
  void predict(const SubLayerRows& rows, std::span<const int32_t> tokens, const Buffers& b,
               MatrixView logits) const;

 private:
  friend struct MtpSpec;
  /// rows.x = the head's input. Returns the same rows with h = x, normalised for attention.
  SubLayerRows join_rows(const SubLayerRows& rows, std::span<const int32_t> tokens,
                         const Buffers& b) const;

  int block_ = 0;
  int n_embd_ = 0;
  float norm_eps_ = 0;
  WeightView own_embedding_;  ///< [n_vocab, n_embd]; empty: it reads the model's
  std::unique_ptr<kernels::PlacedTable> own_table_;
  const kernels::PlacedTable* table_ = nullptr;  ///< that it reads
  const float* embedding_norm_ = nullptr;        ///< [n_embd]
  const float* hidden_norm_ = nullptr;           ///< [n_embd]
  WeightView join_;                              ///< [n_embd, 2 n_embd]
  const float* attention_norm_ = nullptr;        ///< [n_embd]
  std::unique_ptr<SelfAttention> attention_;
  const float* network_norm_ = nullptr;  ///< [n_embd]
  std::unique_ptr<SubLayer> network_;
  SubLayer* parts_[2] = {};
  const float* head_norm_ = nullptr;    ///< [n_embd]
  WeightView head_;                     ///< [n_short, n_embd] the first rows of the output head
  kernels::RecurrentView last_hidden_;  ///< [n_embd] of each slot
};

struct MtpSpec {
  int heads = 1;  ///< stored one after the other, of the same shape; the first is run
  AttentionSpec attention;
  SubLayerSpec network;

  /// Binds and checks every tensor of one head, including those that are not run. `shared`: the
  /// model's weights, used where the head has none of its own.
  std::unique_ptr<MtpHead> bind(const SubLayerBinding& to, const SharedWeights& shared) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_MTP_HEAD_H_
