// Description of a model: its sizes, and what its layers consist of.
#ifndef CHIMERE_MODEL_MODEL_SPEC_H_
#define CHIMERE_MODEL_MODEL_SPEC_H_

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/block_draft.h"
#include "model/keys.h"
#include "model/layers/mtp_head.h"
#include "model/pooling.h"
#include "model/sub_layer.h"

namespace chimere::model {

/// The norms of a model's residual stream.
enum class NormKind {
  kRms,
  kLayer,  ///< layer norms, each with a bias (".bias" in place of ".weight") if the file has it
};

/// One layer. Its mixers read the same normalised rows; their outputs are added to the residual
/// stream one after the other, and so is the network's output then.
struct LayerSpec {
  /// Tensor of the norm before the mixers. Empty: they read the residual stream itself.
  std::string mixer_norm = "attn_norm.weight";
  std::vector<SubLayerSpec> mixers = {};  ///< empty: the layer has a network alone
  /// Tensor of a norm of the residual stream after the mixers (post-norm, as in BERT); empty: none.
  std::string mixer_post_norm = {};
  /// Tensor of the norm before the network. Empty: the network reads the residual stream, if that
  /// was normalised after the mixers, or the same rows as the mixers (parallel residual
  /// connections, as in GPT-J).
  std::string network_norm = "ffn_norm.weight";
  SubLayerSpec network = {};           ///< none: the layer has mixers alone
  std::string network_post_norm = {};  ///< like mixer_post_norm, after the network
  float residual_scale = 1;            ///< of what mixers and network add to the residual stream
};

struct ModelSpec {
  std::string architecture;
  int n_embd = 0;
  int n_vocab = 0;
  int context_length = 0;
  NormKind norm = NormKind::kRms;
  float norm_eps = 0;
  /// Every row of a text sees all others: a text is one step's rows, and has no state.
  bool encoder = false;
  std::string embedding_norm = {};   ///< tensor of a norm of the embedding rows; empty: none
  bool position_embeddings = false;  ///< "position_embd.weight" is added to embedding rows
  bool keeps_embedding = false;      ///< mixers read embedding rows: SubLayerRows::embedding
  float embedding_scale = 1;         ///< of embedding rows, and of vectors in their place
  float logit_scale = 1;
  /// Tensor of the norm before the head; empty: none.
  std::string output_norm = "output_norm.weight";
  std::vector<LayerSpec> layers;          ///< without MTP heads
  std::optional<MtpSpec> mtp;             ///< in the blocks after the layers
  std::optional<BlockDraft> block_draft;  ///< of a block drafter
  int n_drafted = 0;  ///< tokens that a block drafter has logits of, the first of the vocabulary
  Pooling pooling = Pooling::kNone;

  int n_layers() const { return static_cast<int>(layers.size()); }
  /// Values per output row: a logit for each token, or the hidden state that an embedding is pooled
  /// from.
  int n_outputs() const {
    if (block_draft) return n_drafted;
    return embeds() ? n_embd : n_vocab;
  }
  /// Elements of the input vector of a block drafter's context row.
  int context_width() const {
    return block_draft ? static_cast<int>(block_draft->taps.size()) * n_embd : 0;
  }
  /// Its outputs are hidden states, not logits.
  bool embeds() const { return encoder || pooling != Pooling::kNone; }
};

/// Reads and checks what every architecture has: all but layers and MTP heads. Errors: those of
/// Keys; kInvalidData (a key or the vocabulary contradicts another), kUnsupported (rotary positions
/// or a pooling type that are not implemented).
Result<ModelSpec> read_model(const Keys& keys);

/// How many of "block_count" blocks are layers, and how many the MTP heads after them
/// ("nextn_predict_layers").
struct Blocks {
  int layers = 0;
  int mtp_heads = 0;
};
Result<Blocks> read_blocks(const Keys& keys);

/// [blocks.layers] whether a layer has a recurrent mixer in place of attention:
/// "attention.recurrent_layers", or else all but every n-th layer ("full_attention_interval", 4).
Result<std::vector<bool>> read_recurrent_layers(const Keys& keys, const Blocks& blocks);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_SPEC_H_
