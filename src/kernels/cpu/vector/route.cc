#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

// Insertion into a sorted list of the best so far: most experts fail the first comparison. Equal
// logits are inserted after, so that ties go to the lower id.
void route(const float* logits, int n_experts, int n_used, int32_t* ids, float* weights) {
  int count = 0;
  for (int32_t e = 0; e < n_experts; ++e) {
    const float x = logits[e];
    if (count == n_used && !(x > logits[ids[count - 1]])) continue;
    int rank = count < n_used ? count++ : count - 1;
    for (; rank > 0 && x > logits[ids[rank - 1]]; --rank) ids[rank] = ids[rank - 1];
    ids[rank] = e;
  }
  float sum = 0;
  for (int rank = 0; rank < n_used; ++rank) {
    weights[rank] = exp_f32(logits[ids[rank]] - logits[ids[0]]);
    sum += weights[rank];
  }
  for (int rank = 0; rank < n_used; ++rank) weights[rank] /= sum;
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
