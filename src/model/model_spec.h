// Description of a model: its sizes, and what its layers consist of.
#ifndef CHIMERE_MODEL_MODEL_SPEC_H_
#define CHIMERE_MODEL_MODEL_SPEC_H_

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/keys.h"
#include "model/layers/mtp_head.h"
#include "model/pooling.h"
#include "model/sub_layer.h"

namespace chimere::model {

/// One layer. Its mixers read the same normalised rows; their outputs are added to the residual
/// stream one after the other, and so is the network's output then.
struct LayerSpec {
  std::string mixer_norm = "attn_norm.weight";  ///< tensor of the norm before the mixers
  std::vector<SubLayerSpec> mixers = {};        ///< empty: the layer has a network alone
  /// Tensor of the norm before the network. Empty: the network reads the same rows as the mixers
  /// (parallel residual connections, as in GPT-J).
  std::string network_norm = "ffn_norm.weight";
  SubLayerSpec network = {};  ///< none: the layer has mixers alone
  float residual_scale = 1;   ///< of what mixers and network add to the residual stream
};

struct ModelSpec {
  std::string architecture;
  int n_embd = 0;
  int n_vocab = 0;
  int context_length = 0;
  float norm_eps = 0;
  float embedding_scale = 1;  ///< of embedding rows, and of vectors in their place
  float logit_scale = 1;
  std::string output_norm = "output_norm.weight";  ///< tensor of the norm before the head
  std::vector<LayerSpec> layers;                   ///< without MTP heads
  std::optional<MtpSpec> mtp;                      ///< in the blocks after the layers
  Pooling pooling = Pooling::kNone;

  int n_layers() const { return static_cast<int>(layers.size()); }
  /// Values per output row: a logit for each token, or the hidden state that an embedding is pooled
  /// from.
  int n_outputs() const { return pooling == Pooling::kNone ? n_vocab : n_embd; }
};

/// Reads and checks what every architecture has: all but layers, MTP heads and pooling. Errors:
/// those of Keys; kInvalidData (a key or the vocabulary contradicts another), kUnsupported (rotary
/// positions that are not implemented).
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

/// "pooling_type" of an embedding model. Errors: kUnsupported (another type of pooling).
Result<Pooling> read_pooling(const Keys& keys);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_SPEC_H_
