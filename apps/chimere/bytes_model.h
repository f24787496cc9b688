// How many bytes a step must move: each weight that it uses once, states and keys and values.
#ifndef CHIMERE_APPS_CHIMERE_BYTES_MODEL_H_
#define CHIMERE_APPS_CHIMERE_BYTES_MODEL_H_

#include <cstdint>

#include "loaded_model.h"

namespace chimere::app {

class BytesModel {
 public:
  explicit BytesModel(const LoadedModel& loaded);

  /// `rows` rows of one prompt behind `position` tokens. Every 64-row chunk reads and writes the
  /// recurrent state; the keys and values before each chunk are read once, those of its rows are
  /// written.
  double prompt_step(int64_t position, int64_t rows) const;
  /// One row of each of `batch` generations, all behind `position` tokens: each reads and writes
  /// its state, reads its keys and values, and adds one.
  double decode_step(int64_t position, int64_t batch) const;
  /// Of the experts, a generation's token uses so many from now on.
  void use_experts(double mean) { used_by_generations_ = mean / n_experts_; }

 private:
  /// Weights that `rows` rows use: dense ones once; of the routed experts the fraction 1 - (1 -
  /// used/all)^rows, which is what independent, even routing touches.
  double weights(int64_t rows, double used) const;

  double dense_ = 0;    ///< weight bytes that every step reads
  double experts_ = 0;  ///< of all routed experts
  double n_experts_ = 1;
  double used_ = 1;  ///< fraction of the experts that one token uses
  double used_by_generations_ = 1;
  double state_ = 0;  ///< of one sequence
  double per_token_ = 0;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_BYTES_MODEL_H_
