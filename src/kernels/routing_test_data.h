// Random routing functions for the tests of Ops::route.
#ifndef CHIMERE_KERNELS_ROUTING_TEST_DATA_H_
#define CHIMERE_KERNELS_ROUTING_TEST_DATA_H_

#include <cmath>
#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/batch_test_data.h"
#include "kernels/routing.h"

namespace chimere::kernels::test {

/// A router's outputs and a routing function that is valid for them.
struct RoutingProblem {
  Matrix logits;
  int n_used;
  std::vector<float> bias;  ///< empty: none
  RoutingSpec spec;         ///< its `bias` is not set

  /// Half of the problems have whole numbers as logits and biases, so that scores tie.
  RoutingProblem(Rng& rng, int rows, int max_experts, int max_used)
      : logits(rng, rows, uniform_int(rng, 1, max_experts), 4) {
    int n_experts = static_cast<int>(logits.cols);
    spec.score = static_cast<RouterScore>(uniform_int(rng, 0, 2));
    if (uniform_int(rng, 0, 1) == 0) {
      spec.n_groups = uniform_int(rng, 1, std::min(n_experts, 32));
      n_experts = n_experts / spec.n_groups * spec.n_groups;
      logits = Matrix(rng, rows, n_experts, 4);
      spec.n_groups_used = uniform_int(rng, 1, spec.n_groups);
    }
    const int eligible =
        spec.has_groups() ? n_experts / spec.n_groups * spec.n_groups_used : n_experts;
    n_used = uniform_int(rng, 1, std::min(eligible, max_used));
    if (uniform_int(rng, 0, 1) == 0) bias = normal_floats(rng, n_experts, 0.3F);
    spec.normalise = uniform_int(rng, 0, 1) == 0;
    spec.scale = uniform_int(rng, 0, 1) == 0 ? 1.0F : 2.5F;
    if (uniform_int(rng, 0, 1) == 0) {
      for (float& x : logits.data) x = std::round(x);
      for (float& x : bias) x = std::round(x);
    }
  }

  size_t places() const { return static_cast<size_t>(logits.rows * n_used); }
};

inline std::ostream& operator<<(std::ostream& out, const RoutingProblem& p) {
  return out << p.logits.cols << " experts, " << p.n_used << " used, score "
             << static_cast<int>(p.spec.score) << ", bias " << !p.bias.empty() << ", groups "
             << p.spec.n_groups_used << " of " << p.spec.n_groups << ", normalise "
             << p.spec.normalise << ", scale " << p.spec.scale;
}

}  // namespace chimere::kernels::test

#endif  // CHIMERE_KERNELS_ROUTING_TEST_DATA_H_
