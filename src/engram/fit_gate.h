// Fits the weights of a gate to text by maximum likelihood of the mixture.
#ifndef CHIMERE_ENGRAM_FIT_GATE_H_
#define CHIMERE_ENGRAM_FIT_GATE_H_

#include <cstdint>
#include <vector>

#include "engram/gate.h"
#include "engram/memory.h"

namespace chimere::engram {

/// Collects what the model and one table predicted for each token of a held-out text, then fits the
/// gate's weights by gradient descent (Adam in a fixed order: the same text gives the same gate).
/// The text must not be in the table: it would teach the gate to trust the table too much.
class GateTrainer {
 public:
  /// To be called after Memory::look_up() of a memory with one table. `target`: the token that
  /// followed.
  void add(const Memory& memory, const ModelPrediction& prediction, uint32_t target);
  size_t positions() const { return samples_.size(); }

  struct Fitted {
    Gate gate;
    double before = 0;  ///< nats per position with the Kneser-Ney shares
    double after = 0;   ///< nats per position with the fitted shares
  };
  Fitted fit(int epochs) const;

 private:
  struct Context {
    int order = 0;
    float q = 0;  ///< probability of the target
    Features features;
  };
  struct Sample {
    double p_model = 0;
    size_t first = 0;  ///< index of its contexts, shortest first
  };

  double mean_nats(const Gate& gate) const;
  /// Adds the gradient of -ln p for one sample.
  void add_gradient(size_t sample, const Gate& gate, std::vector<double>& gradient) const;

  std::vector<Sample> samples_;
  std::vector<Context> contexts_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_FIT_GATE_H_
