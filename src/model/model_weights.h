// A model's layers, bound to the weights of a file.
#ifndef CHIMERE_MODEL_MODEL_WEIGHTS_H_
#define CHIMERE_MODEL_MODEL_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/input_embedding.h"
#include "model/layers/mtp_head.h"
#include "model/model_options.h"
#include "model/model_spec.h"
#include "model/rank_head.h"
#include "model/sub_layer.h"
#include "model/weight_binder.h"

namespace chimere::model {

/// A norm of the residual stream.
struct Norm {
  const float* weight = nullptr;  ///< [n_embd]; nullptr: there is no norm
  const float* bias = nullptr;    ///< [n_embd]; nullptr: none

  explicit operator bool() const { return weight != nullptr; }
};

struct Layer {
  Norm mixer_norm;
  std::vector<std::unique_ptr<SubLayer>> mixers;
  Norm mixer_post_norm;
  Norm network_norm;
  std::unique_ptr<SubLayer> network;  ///< nullptr: there is none
  Norm network_post_norm;
  bool parallel_network = false;  ///< the network reads the mixers' rows
  float residual_scale = 1;
};

/// What makes the rows of a block drafter.
struct BlockDraftWeights {
  WeightView fuse;              ///< [n_embd, context_width] of context rows
  const float* norm = nullptr;  ///< [n_embd] of the result
  /// Tables of one row: of context rows, which all have vectors, and of blocks, where that is the
  /// mask's and other rows have vectors.
  std::unique_ptr<kernels::PlacedTable> context_rows;
  std::unique_ptr<kernels::PlacedTable> block_rows;
  static constexpr int32_t kMask = 0;  ///< token of block_rows
  std::vector<float> no_token;         ///< memory of context_rows
  std::vector<float> mask;             ///< memory of block_rows

  /// Puts them where ops read them; call once. `embedding`: of the target. Errors: those of
  /// Ops::place().
  Status place(const ModelSpec& model, const InputEmbedding& embedding, kernels::Ops& ops);
};

struct ModelWeights {
  WeightView embedding;  ///< [n_vocab, n_embd], as in the file
  /// The same where ops read it; nullptr in a block drafter.
  std::unique_ptr<kernels::PlacedTable> table;
  BlockDraftWeights block_draft;  ///< empty in other models
  std::vector<Layer> layers;
  size_t last_mixer = 0;  ///< index of the last layer with a mixer: after it, rows are independent
  Norm embedding_norm;
  Norm output_norm;
  InputEmbedding input;                 ///< of a model that adds more than one table's rows
  std::unique_ptr<RankHead> rank_head;  ///< if the file's pooling is rank
  WeightView output;             ///< [n_vocab or n_drafted, n_embd]; empty in embedding models
  std::unique_ptr<MtpHead> mtp;  ///< if it is run
  int64_t active_bytes = 0;
  std::string left_out;                            ///< see WeightBinder
  std::vector<AdapterTarget> targets;              ///< by WeightView::target
  std::vector<std::unique_ptr<uint8_t[]>> copies;  ///< of tensors whose layout in the file differs

  /// Binds every tensor that the model has, also those of MTP heads that are not run, so that a
  /// damaged file is detected at load time. Errors: those of WeightBinder::finish(); kUnsupported
  /// (no layer has a mixer, or a layer's network has nothing normalised to read).
  static Result<ModelWeights> bind(const ModelSpec& model, const ModelOptions& options,
                                   WeightBinder& binder);

  /// Puts the weights where ops read them; call once. `host_expert_layers`: see ModelOptions.
  /// Errors: those of Ops::place().
  Status place(const ModelSpec& model, kernels::Ops& ops, int host_expert_layers);

  /// Declares the state of all layers and of the MTP head. Errors: those of SubLayer::add_state().
  Status add_state(StateBuilder& states);

  /// Some layer is recurrent; the MTP head is not asked.
  bool recurrent() const;

  /// Calls `visit` with every sub-layer, including the MTP head's.
  template <typename Visit>
  void for_each_sub_layer(const Visit& visit) const {
    for (const Layer& layer : layers) {
      for (const auto& mixer : layer.mixers) visit(*mixer);
      if (layer.network != nullptr) visit(*layer.network);
    }
    if (mtp == nullptr) return;
    for (const SubLayer* part : mtp->sub_layers()) visit(*part);
  }
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_WEIGHTS_H_
