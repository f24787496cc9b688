// Training of the companions.
#ifndef CHIMERE_TRAIN_COMPANION_TRAINER_H_
#define CHIMERE_TRAIN_COMPANION_TRAINER_H_

#include <vector>

#include "companion_data.h"
#include "companion_model.h"
#include "config.h"
#include "optimizer.h"

namespace chimere::train {

/// The fraction of a step's questions answered correctly, and the loss in nats.
struct CompanionLosses {
  double loss = 0;
  double right = 0;
};

/// recipe.batch: pairs a step, a multiple of kGroup; recipe.window: tokens of a text at most.
class CompanionTrainer {
 public:
  CompanionTrainer(Companion& model, CompanionKind kind, const Marks& marks, const Recipe& recipe,
                   const std::vector<std::vector<Text>>& records);

  int64_t step_count() const { return step_; }
  CompanionLosses step();

 private:
  torch::Tensor embedder_loss(const std::vector<PairOrder::Pair>& pairs, double& right) const;
  torch::Tensor reranker_loss(const std::vector<PairOrder::Pair>& pairs, double& right) const;

  Companion& model_;
  CompanionKind kind_;
  Marks marks_;
  Recipe recipe_;
  Optimizer optimizer_;
  PairOrder order_;
  int64_t step_ = 0;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_COMPANION_TRAINER_H_
