#include <vector>

#include "kernels/math.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {

// softmax(x)_i / Σ_chosen softmax(x)_j: the softmax's denominator cancels, so only the chosen
// experts' exponentials, relative to the largest, are needed.
void route(ConstMatrixView logits, Routing routing) {
  for (int64_t r = 0; r < logits.rows; ++r) {
    const float* x = logits.row(r);
    int32_t* ids = routing.ids + r * routing.n_used;
    float* weights = routing.weights + r * routing.n_used;
    std::vector<bool> taken(logits.cols);
    float sum = 0;
    for (int rank = 0; rank < routing.n_used; ++rank) {
      int32_t best = -1;
      for (int32_t e = 0; e < logits.cols; ++e) {
        if (!taken[e] && (best < 0 || x[e] > x[best])) best = e;
      }
      taken[best] = true;
      ids[rank] = best;
      weights[rank] = exp_f32(x[best] - x[ids[0]]);
      sum += weights[rank];
    }
    for (int rank = 0; rank < routing.n_used; ++rank) weights[rank] /= sum;
  }
}

}  // namespace chimere::kernels::ref
