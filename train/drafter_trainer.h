// Training of block-diffusion drafters, and how well they draft.
#ifndef CHIMERE_TRAIN_DRAFTER_TRAINER_H_
#define CHIMERE_TRAIN_DRAFTER_TRAINER_H_

#include <torch/torch.h>

#include <cstdint>
#include <future>
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

/// A size of blocks. The weight of draft i in the loss is exp(-(i - 1) / gamma).
struct TrainedBlock {
  int64_t rows = 16;
  double gamma = 7.0;
};

/// Which of `sizes` a step trains: each is equally likely. A pure function.
size_t block_of_step(size_t sizes, uint64_t seed, int64_t step);

/// Of the recipe: batch, window, seed, steps, rates, quantise_from.
class DrafterTrainer {
 public:
  /// `model` and `order` (of the model's block) must outlive this. `blocks`: at least one, none
  /// larger than the model's.
  DrafterTrainer(BlockDrafter& model, AnchorOrder& order, const Recipe& recipe,
                 const std::vector<TrainedBlock>& blocks);

  int64_t step_count() const { return step_; }
  int64_t steps() const { return recipe_.steps; }
  void set_steps(int64_t steps) { recipe_.steps = steps; }

  /// Returns {loss in nats, share of first drafts right, mean accepted length} of the blocks
  /// [3] on the device: nothing here waits for it. The next step's batch is prepared on another
  /// thread meanwhile. Errors: those of AnchorOrder::batch().
  Result<torch::Tensor> step();

 private:
  std::future<Result<DrafterBatch>> prepare(int64_t step);

  BlockDrafter& model_;
  AnchorOrder& order_;
  Recipe recipe_;
  Optimizer optimizer_;
  std::vector<torch::Tensor> decays_;  ///< weights [rows - 1] of the drafts, of each size of blocks
  int64_t step_ = 0;
  std::future<Result<DrafterBatch>> next_;  ///< the batch of step_, unless an error came first
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
/// that of the model. Errors: kIo, kInvalidData (a shard changed), kInvalidArgument (rows of other
/// layers than the model's; shards without rows before HiddenStates::set_target()).
Result<Replay> replay(const BlockDrafter& model, const HiddenStates& data,
                      std::vector<HiddenSequence> sequences, int64_t block);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_DRAFTER_TRAINER_H_
