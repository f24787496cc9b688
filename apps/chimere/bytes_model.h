// The bytes that a step must move: each weight that it uses once, recurrent states, keys, values.
#ifndef CHIMERE_APPS_CHIMERE_BYTES_MODEL_H_
#define CHIMERE_APPS_CHIMERE_BYTES_MODEL_H_

#include <cstdint>

#include "runtime/loaded_model.h"

namespace chimere::app {

class BytesModel {
 public:
  explicit BytesModel(const runtime::LoadedModel& loaded);

  /// Prefill of `rows` rows of one prompt after `position` tokens. Every chunk of 64 rows reads
  /// and writes the recurrent state, reads the keys and values before it once, and writes its own.
  double prompt_step(int64_t position, int64_t rows) const;
  /// A decode step: one row of each of `batch` generations, all after `position` tokens. Each
  /// reads and writes its state, reads its keys and values, and adds one position.
  double decode_step(int64_t position, int64_t batch) const;
  /// Sets the mean number of experts that a decode row uses in a layer.
  void use_experts(double mean) { used_by_generations_ = mean / n_experts_; }

 private:
  /// Weight bytes that `rows` rows read: all dense ones, and the fraction 1 - (1 - used)^rows of
  /// the routed experts (independent, uniform routing). `used`: fraction of experts for each row.
  double weights(int64_t rows, double used) const;

  double dense_ = 0;    ///< weight bytes that every step reads
  double experts_ = 0;  ///< of all routed experts
  double n_experts_ = 1;
  double used_ = 1;                 ///< fraction of the experts that a prefill row uses
  double used_by_generations_ = 1;  ///< and a decode row
  double state_ = 0;                ///< recurrent state bytes of one sequence
  double per_token_ = 0;            ///< key and value bytes
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_BYTES_MODEL_H_
