// Muon for the matrices inside the blocks, AdamW for everything else.
#ifndef CHIMERE_TRAIN_OPTIMIZER_H_
#define CHIMERE_TRAIN_OPTIMIZER_H_

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "config.h"

namespace chimere::train {

/// Muon (Jordan et al. 2024; scaled to Adam's update size as in Liu et al. 2025, arXiv:2502.16982)
/// orthogonalises the momentum of each matrix by a Newton-Schulz iteration; matrices of one shape
/// run as a batch.
class Optimizer {
 public:
  Optimizer(std::map<std::string, torch::Tensor>& parameters, const Recipe& recipe);

  /// Clips, applies and clears the gradients; a gradient with an infinite norm counts as zero.
  /// Returns the norm before clipping, a scalar on the device: nothing here waits for it.
  torch::Tensor step(double learning_rate);
  void clear_gradients();

  /// Moments and counters by name, for checkpoints.
  std::map<std::string, torch::Tensor>& state() { return state_; }
  int64_t count() const { return count_; }
  void set_count(int64_t n) { count_ = n; }

 private:
  void muon(const std::vector<std::string>& names, double learning_rate);
  void adam(const std::string& name, double learning_rate);

  std::map<std::string, torch::Tensor>& parameters_;
  Recipe recipe_;
  std::map<std::string, torch::Tensor> state_;
  std::vector<std::vector<std::string>> muon_groups_;
  std::vector<std::string> adam_names_;
  int64_t count_ = 0;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_OPTIMIZER_H_
