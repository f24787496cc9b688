// A block-diffusion drafter (DFlash, Chen et al. 2026, arXiv:2602.06036): from outputs of some
// layers of a target model it predicts a block of tokens in one forward pass.
#ifndef CHIMERE_TRAIN_DRAFTER_MODEL_H_
#define CHIMERE_TRAIN_DRAFTER_MODEL_H_

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "model_file.h"

namespace chimere::train {

/// What a drafter uses of its target. Nothing of it is trained.
struct DrafterTarget {
  torch::Tensor embedding;  ///< [V, E] f32
  torch::Tensor output;     ///< [V, E] in the type of matrix products; may be `embedding`
  torch::Tensor norm;       ///< [E] f32: the output norm, with which a drafter's begins
  int64_t context = 4096;
  double rope_base = 10000.0;
  double eps = 1e-6;
};

/// Reads a target of any architecture and type whose tensors have the usual names. Matrix products
/// of its drafters run on `device` in `compute`. Errors: a missing or misshapen tensor.
Result<DrafterTarget> read_target(const gguf::Reader& file, torch::Device device,
                                  torch::Dtype compute);

/// Hyper-parameters, named like their GGUF metadata.
struct DrafterConfig {
  int64_t n_vocab = 0;  ///< of the target, as are n_embd, context, rope_base and eps
  int64_t n_embd = 0;
  int64_t context = 4096;
  int64_t n_layer = 2;
  int64_t n_ff = 1024;
  int64_t n_head = 8;
  int64_t n_head_kv = 2;
  int64_t head_dim = 64;
  int64_t block = 16;  ///< rows of a block: the anchor and block - 1 drafts
  int64_t window = 0;  ///< positions that a row sees, itself included, in all layers; 0: all
  int64_t mask_token = 0;
  double rope_base = 10000.0;
  double eps = 1e-6;
  std::vector<int64_t> taps;  ///< layers of the target, from 0, whose outputs are read

  /// Takes what is the target's: sizes, context, rotation and eps.
  void fit(const DrafterTarget& target);
  /// What does not depend on the target. Errors: kInvalidData (heads or a block that the engine
  /// refuses).
  Status check_shape() const;
  /// Errors: those of check_shape(); kInvalidData (sizes that are no drafter's).
  Status check() const;
};

/// Keys and values of rows that the target has computed, for all layers of a drafter.
struct DrafterContext {
  std::vector<torch::Tensor> keys, values;  ///< [B, n_head_kv, W, head_dim] each
  torch::Tensor first;                      ///< [B] int64: position of row 0 in the text
};

/// RMSNorm -> grouped-query attention with normed queries and keys -> RMSNorm -> SwiGLU, n_layer
/// times, over the rows of a block: the anchor (the newest token) and masks. A block's rows see one
/// another and the context rows before the anchor, whose keys and values come from c = norm(fc
/// rows). Row i predicts the token i after the anchor. Parameters carry their GGUF names and
/// reversed shapes and are f32.
class BlockDrafter {
 public:
  /// Draws initial weights from the seed; they are on the target's device. `config` was checked.
  BlockDrafter(const DrafterConfig& config, const DrafterTarget& target, uint64_t seed);

  /// Rows see so many positions from now on. Errors: those of DrafterConfig::check().
  Status set_window(int64_t window) {
    config_.window = window;
    return config_.check();
  }
  const DrafterConfig& config() const { return config_; }
  const DrafterTarget& target() const { return target_; }
  torch::Device device() const { return target_.output.device(); }
  std::map<std::string, torch::Tensor>& parameters() { return parameters_; }
  const std::map<std::string, torch::Tensor>& parameters() const { return parameters_; }

  /// Whether matrices are rounded to Q4_0 in forward passes; gradients ignore the rounding.
  void set_quantised(bool on) { quantised_ = on; }

  /// `rows` [B, W, taps * n_embd] of any float type: outputs of the tapped layers, concatenated;
  /// `first` [B] int64: positions of the first rows.
  DrafterContext read(const torch::Tensor& rows, const torch::Tensor& first) const;

  /// Normed rows [B, A, block, n_embd] of one block per anchor, in the type of matrix products.
  /// `anchors`, `positions` [B, A] int64: tokens and their positions in the text. `block` may be
  /// smaller than that of training.
  torch::Tensor forward(const DrafterContext& context, const torch::Tensor& anchors,
                        const torch::Tensor& positions, int64_t block) const;

  /// Logits [block - 1, V] of the drafts of one block: `rows` [n, taps * n_embd] are those of the
  /// text from position `first` to the anchor, which is at first + n.
  torch::Tensor logits(const torch::Tensor& rows, int64_t first, int64_t anchor,
                       int64_t block) const;

 private:
  /// What all layers use of a block's place in the text.
  struct Places {
    torch::Tensor positions;  ///< [B, A * block]
    /// [B, 1, A, 1, W] bool: context rows not before the anchor; with a window [B, 1, A, G * block,
    /// W], also those that have left it.
    torch::Tensor unseen;
    int64_t block;
  };

  torch::Tensor weight(const std::string& name) const;
  torch::Tensor linear(const torch::Tensor& x, const std::string& name) const;
  torch::Tensor norm(const torch::Tensor& x, const std::string& name) const;
  /// Heads of y [B, T, H * head_dim], normed and rotated: [B, T, H, head_dim].
  torch::Tensor rotated(const torch::Tensor& y, const std::string& norm_name,
                        const torch::Tensor& positions) const;
  torch::Tensor attention(const torch::Tensor& x, int64_t layer, const DrafterContext& context,
                          const Places& places) const;
  torch::Tensor feed_forward(const torch::Tensor& x, int64_t layer) const;

  DrafterConfig config_;
  DrafterTarget target_;
  bool quantised_ = false;
  std::map<std::string, torch::Tensor> parameters_;
};

/// Writes a `dflash` file as llama.cpp expects it: without embedding, output matrix and vocabulary,
/// which are the target's. Errors: as write_model().
Status write_drafter(const BlockDrafter& model, Mix mix, const std::string& path);

/// The drafter of a file of any type, decoded to f32. Errors: kUnsupported (no dflash),
/// kInvalidData (also: another target's).
Result<std::unique_ptr<BlockDrafter>> read_drafter(const gguf::Reader& file,
                                                   const DrafterTarget& target);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_DRAFTER_MODEL_H_
