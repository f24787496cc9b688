// Learns a gate from text: maximum likelihood of the mixture.
#ifndef CHIMERE_ENGRAM_FIT_GATE_H_
#define CHIMERE_ENGRAM_FIT_GATE_H_

#include <cstdint>
#include <vector>

#include "engram/gate.h"
#include "engram/memory.h"

namespace chimere::engram {

/// Collects what the model and a table said before each token of a text that is in neither, then
/// fits the gate's weights to it by gradient descent (Adam, fixed order: the same text gives the
/// same gate). A text that the table knows by heart teaches too much trust.
class GateTrainer {
 public:
  /// After Memory::look_up() of a memory with one table. `target`: the token that came.
  void add(const Memory& memory, const ModelPrediction& prediction, uint32_t target);
  size_t positions() const { return samples_.size(); }

  struct Fitted {
    Gate gate;
    double before = 0;  ///< nats a position with Kneser-Ney's shares
    double after = 0;   ///< with the fitted ones
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
    size_t first = 0;  ///< of its contexts, shortest first
  };

  double mean_nats(const Gate& gate) const;
  /// Adds the gradient of -ln p at one sample.
  void add_gradient(size_t sample, const Gate& gate, std::vector<double>& gradient) const;

  std::vector<Sample> samples_;
  std::vector<Context> contexts_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_FIT_GATE_H_
