// One training run: steps, evaluation, checkpoints.
#ifndef CHIMERE_TRAIN_TRAINER_H_
#define CHIMERE_TRAIN_TRAINER_H_

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model.h"
#include "optimizer.h"
#include "window_order.h"

namespace chimere::train {

/// Means over the tokens of a step or an evaluation, in nats.
struct Losses {
  double next = 0;      ///< cross entropy of the next token
  double after = 0;     ///< of the token after it, or the model's choice for it, by the MTP block
  double balance = 0;   ///< 1 at uniform expert load
  double gradient = 0;  ///< norm before clipping
};

/// How many windows of `long_window` tokens a step has.
int64_t long_batch(const Recipe& recipe);

/// The windows of a step are shared out to the devices, each of which has a copy of the weights;
/// the first adds up the gradients and holds what the optimiser keeps.
class Trainer {
 public:
  /// `devices`: at least one; recipe.batch, and that of the long windows, is a multiple of their
  /// number.
  Trainer(const ModelConfig& config, const Recipe& recipe, const TokenFile& documents,
          const TokenFile& chats, const std::vector<torch::Device>& devices, torch::Dtype compute);

  const Model& model() const { return *models_[0]; }
  Model& model() { return *models_[0]; }
  int64_t step_count() const { return step_; }
  /// Takes up a schedule in its middle, without moments: for a run whose checkpoint is lost.
  void start_at(int64_t step) { step_ = step; }

  /// One optimiser step. `want_losses`: false leaves the device unsynchronised and gives zeros.
  Losses step(bool want_losses);

  /// Weights, moments and the step number: training goes on bit for bit as if it had not stopped
  /// (on one kind of device, with the same libtorch). Errors: kIo, kInvalidData (another shape of
  /// model).
  Status save(const std::string& path);
  Status load(const std::string& path);

 private:
  struct Sums;
  /// Gradients of a share of the step's windows [b, window + 2], on the device of `model`.
  Sums backward(Model& model, const torch::Tensor& windows) const;
  void copy_weights_to_others();
  void add_gradients_of_others();

  Recipe recipe_;
  std::vector<std::unique_ptr<Model>> models_;  ///< one a device
  Optimizer optimizer_;
  WindowOrder order_, long_order_;
  int64_t step_ = 0;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_TRAINER_H_
