// Training of block-diffusion drafters, and how well they draft.
#ifndef CHIMERE_TRAIN_DRAFTER_TRAINER_H_
#define CHIMERE_TRAIN_DRAFTER_TRAINER_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "config.h"
#include "drafter_data.h"
#include "drafter_model.h"
#include "optimizer.h"

namespace chimere::train {

/// Sum of weight * cross entropy of softmax(hidden output^T) against target, in nats: hidden [N,
/// E], output [V, E] without gradient, target [N] int64, weight [N] f32. Logits exist for `chunk`
/// rows at a time. `choice`, if given, becomes the likeliest ids [N].
torch::Tensor weighted_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& output,
                                     const torch::Tensor& target, const torch::Tensor& weight,
                                     int64_t chunk, torch::Tensor* choice = nullptr);

/// The gamma of DFlash for a block: 7 for 16, 4 for 8.
double default_gamma(int64_t block);

/// Of the recipe: batch, window, seed, steps, rates, quantise_from.
class DrafterTrainer {
 public:
  /// `model` and `order` (of the model's block) must outlive this. The weight of draft i in the
  /// loss is exp(-(i - 1) / gamma).
  DrafterTrainer(BlockDrafter& model, AnchorOrder& order, const Recipe& recipe, double gamma);

  int64_t step_count() const { return step_; }
  int64_t steps() const { return recipe_.steps; }
  void set_steps(int64_t steps) { recipe_.steps = steps; }

  /// Returns {loss in nats, share of first drafts right, mean accepted length} of the blocks
  /// [3] on the device: nothing here waits for it. Errors: those of AnchorOrder::batch().
  Result<torch::Tensor> step();

 private:
  BlockDrafter& model_;
  AnchorOrder& order_;
  Recipe recipe_;
  Optimizer optimizer_;
  torch::Tensor decay_;  ///< [block - 1]
  int64_t step_ = 0;
};

/// What greedy decoding of known texts would have accepted.
struct Replay {
  int64_t tokens = 0;  ///< after the first generated one
  int64_t steps = 0;   ///< forward passes of the target for them
  int64_t sequences = 0;
  std::vector<int64_t> places;    ///< steps with text at draft i + 1
  std::vector<int64_t> accepted;  ///< of those, drafts 1 to i + 1 are right

  double tau() const { return steps > 0 ? double(tokens) / double(steps) : 0.0; }
};

/// Drafts the generated part of each sequence that has one: from an anchor, leading drafts that
/// equal the text are accepted, and the token after them is the next anchor. `block` is at most
/// that of the model. Errors: kIo, kInvalidData (a shard changed).
Result<Replay> replay(const BlockDrafter& model, const HiddenStates& data,
                      std::vector<HiddenSequence> sequences, int64_t block);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_DRAFTER_TRAINER_H_
