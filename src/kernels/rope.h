// Cosines and sines of rotary position embeddings (Su et al. 2021, arXiv:2104.09864), computed
// without the C library, so that every machine gets the same bits.
#ifndef CHIMERE_KERNELS_ROPE_H_
#define CHIMERE_KERNELS_ROPE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace chimere::kernels {

/// Frequency i < dims / 2 is base^(-2 i / dims): radians from one position to the next.
std::vector<double> rope_frequencies(int dims, float base);

/// The rotations of a step's rows. All layers of a step share their positions, so the table is
/// filled once per step.
class RopeTable {
 public:
  /// Angle i of position p is p · base^(-2 i / dims), i < dims / 2, divided by factors[i] if there
  /// are any ([dims / 2], or nullptr), computed in double; its cosine and sine are rounded to f32.
  /// Does nothing if the table already holds these positions.
  void prepare(std::span<const int32_t> positions, int dims, float base,
               const float* factors = nullptr);

  /// Of the row's position: [dims / 2] cosines, then [dims / 2] sines.
  const float* row(int64_t r) const { return values_.data() + r * dims_; }

 private:
  std::vector<int32_t> positions_;
  std::vector<double> frequencies_;
  std::vector<float> factors_;
  std::vector<float> values_;
  int dims_ = 0;
  float base_ = 0;
};

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ROPE_H_
