// One training run: steps, evaluation, checkpoints.
#ifndef CHIMERE_TRAIN_TRAINER_H_
#define CHIMERE_TRAIN_TRAINER_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "group.h"
#include "model.h"
#include "optimizer.h"
#include "window_order.h"

namespace chimere::train {

/// Means over the tokens of a step or an evaluation, in nats.
struct Losses {
  double next = 0;      ///< cross entropy of the next token
  double after = 0;     ///< of the token after it, or the model's choice for it, by the MTP head
  double balance = 0;   ///< 1 at uniform expert load
  double gradient = 0;  ///< norm before clipping
};

/// How many windows of `long_window` tokens a step has.
int64_t long_batch(const Recipe& recipe);

class Trainer {
 public:
  /// `group`, if given, outlives the trainer; its members share out the windows of a step, whose
  /// number is a multiple of theirs.
  Trainer(const ModelConfig& config, const Recipe& recipe, const TokenFile& documents,
          const TokenFile& chats, torch::Device device, torch::Dtype compute,
          Group* group = nullptr);

  const Model& model() const { return *model_; }
  Model& model() { return *model_; }
  int64_t step_count() const { return step_; }
  /// Starts in the middle of a schedule without moments, for a run whose checkpoint is lost.
  void start_at(int64_t step) { step_ = step; }

  /// One optimiser step. `want_losses`: false leaves the device unsynchronised and gives zeros; the
  /// losses are those of the member's own windows.
  Losses step(bool want_losses);

  /// Weights, moments and the step number: training continues bit for bit as if it had not stopped
  /// (on one kind of device, with the same libtorch). Errors: kIo, kInvalidData (another shape of
  /// model).
  Status save(const std::string& path);
  Status load(const std::string& path);

 private:
  /// This member's windows of a step.
  torch::Tensor own_windows(const torch::Tensor& windows) const;
  void add_gradients();
  void share_weights();

  Recipe recipe_;
  Group* group_;
  torch::Device device_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  WindowOrder order_, long_order_;
  int64_t step_ = 0;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_TRAINER_H_
