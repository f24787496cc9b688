// Random tensors with the magnitudes of trained ones, for model files of tests.
#ifndef CHIMERE_TESTS_SUPPORT_RANDOM_TENSORS_H_
#define CHIMERE_TESTS_SUPPORT_RANDOM_TENSORS_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"
#include "tensor/dtype.h"

namespace chimere::test {

/// A weight matrix to be written to a file.
struct RandomMatrix {
  std::vector<int64_t> dims;  ///< GGUF order
  DType type = DType::kF32;
  std::vector<uint8_t> data;
};

/// Draws tensors and adds them to a file. Deterministic on every machine.
class RandomTensors {
 public:
  explicit RandomTensors(uint64_t seed) : rng_(seed) {}

  gguf::Writer& writer() { return writer_; }
  /// The file; the first error of add() if there was one.
  Result<gguf::Writer> finish();

  /// Uniform in [0, 1), from the top bits, the same everywhere (std:: distributions are not).
  float uniform() { return static_cast<float>(rng_() >> 40) * 0x1p-24F; }
  /// Near normal: the sum of four uniforms has variance 1/3.
  float normal();

  /// f32, as given.
  void vector(const std::string& name, const std::vector<float>& v);
  /// f32 [n] near 1.
  void norm(const std::string& name, int n);
  /// f32 [n] with the standard deviation `deviation`.
  void bias(const std::string& name, int n, float deviation);

  /// Standard deviation near 1/sqrt(fan-in). A tensor whose rows are not a multiple of the type's
  /// block becomes q8_0, or else f32.
  RandomMatrix draw(const std::vector<int64_t>& dims, DType type);
  void add(const std::string& name, const RandomMatrix& m);
  void weight(const std::string& name, const std::vector<int64_t>& dims, DType type) {
    add(name, draw(dims, type));
  }
  /// One tensor of several: the first of `n` equal shares of each part, then the second, ...
  void fused(const std::string& name, const std::vector<RandomMatrix>& parts, int n);
  /// Rows [begin, begin + count) of a matrix.
  static RandomMatrix rows(const RandomMatrix& m, int64_t begin, int64_t count);

 private:
  void add(const std::string& name, const std::vector<int64_t>& dims, DType type, const void* data,
           size_t bytes);
  std::vector<uint8_t> random_floats(DType type, int64_t n, float deviation);
  std::vector<uint8_t> random_blocks(DType type, int64_t n, float deviation);

  std::mt19937_64 rng_;
  gguf::Writer writer_;
  Status status_;
};

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_RANDOM_TENSORS_H_
