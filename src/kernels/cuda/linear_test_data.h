// Random matrix products on a device: packed weights, jobs and the results of ref.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_TEST_DATA_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_TEST_DATA_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "kernels/cpu/linear_test_data.h"
#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/half_rows.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/ref/linear.h"

namespace chimere::kernels::cuda::test {

/// A weight matrix, packed and uploaded.
inline OnDevice<uint8_t> packed_on(Device& device, const WeightView& w, bool unpacked) {
  std::vector<uint8_t> packed(static_cast<size_t>(packed_bytes(w, unpacked)));
  pack_rows(w, 0, w.n_out, packed.data(), unpacked);
  return {device, packed};
}

/// Memory for rounded rows, initialised to NaNs.
class RoundedOnDevice {
 public:
  RoundedOnDevice(Device& device, int64_t rows, int64_t n)
      : memory_(device,
                std::vector<uint8_t>(static_cast<size_t>(tiled_rounded_bytes(rows, n)), 0xFF)),
        rows_(tiled_rounded_rows_at(memory_.data(), rows, n)) {}
  const RoundedRows& rows() const { return rows_; }

 private:
  OnDevice<uint8_t> memory_;
  RoundedRows rows_;
};

/// Memory for rows as f16, initialised to NaNs.
class HalvesOnDevice {
 public:
  HalvesOnDevice(Device& device, int64_t rows, int64_t n)
      : memory_(device, std::vector<uint8_t>(static_cast<size_t>(half_rows_bytes(rows, n)), 0xFF)),
        rows_(half_rows_at(memory_.data(), rows, n)) {}
  const HalfRows& rows() const { return rows_; }

 private:
  OnDevice<uint8_t> memory_;
  HalfRows rows_;
};

struct LinearProblem {
  struct Job {
    DType type;
    int64_t n_out;
    bool accumulate;
    float scale;
    std::vector<uint8_t> w;
    std::vector<float> y;  ///< initial values, [rows, n_out + 3]
  };
  int64_t rows = 0;
  int64_t n_in = 0;
  int64_t x_stride = 0;
  bool unpacked = false;  ///< weight layout on the device
  std::vector<float> x;
  std::vector<Job> jobs;

  LinearProblem(test_data::Random& random, int64_t n_rows, int64_t n,
                const std::vector<DType>& types, int64_t max_out, int64_t min_out = 1)
      : rows(n_rows), n_in(n), x_stride(n + random.between(0, 5)) {
    unpacked = random.between(0, 1) == 1;
    x = random.activations(rows, x_stride);
    for (const DType t : types) {
      const int64_t n_out = random.between(min_out, max_out);
      const bool accumulate = random.between(0, 1) == 1;
      const float scale = random.between(0, 1) == 1 ? 1.0F : -0.22F;
      jobs.push_back({t, n_out, accumulate, scale, random.weights(t, n_out, n_in),
                      random.activations(rows, n_out + 3)});
    }
  }

  WeightView weights(const Job& job) const { return {job.type, job.n_out, n_in, job.w.data()}; }

  std::vector<std::vector<float>> by_ref() const {
    std::vector<std::vector<float>> y;
    for (const Job& job : jobs) y.push_back(job.y);
    std::vector<LinearJob> list;
    for (size_t j = 0; j < jobs.size(); ++j)
      list.push_back(linear_job(j, jobs[j].type, weights(jobs[j]).data, y[j].data()));
    ref::linear({x.data(), rows, n_in, x_stride}, list);
    return y;
  }

  /// Runs f(x, jobs) with all operands on the device; returns the jobs' y.
  template <class F>
  std::vector<std::vector<float>> on(Device& device, F f) const {
    std::deque<OnDevice<uint8_t>> w;
    std::deque<OnDevice<float>> y;
    const OnDevice<float> input(device, x);
    std::vector<LinearJob> list;
    for (size_t j = 0; j < jobs.size(); ++j) {
      w.push_back(packed_on(device, weights(jobs[j]), unpacked));
      y.emplace_back(device, jobs[j].y);
      list.push_back(
          linear_job(j, packed_type(jobs[j].type, unpacked), w.back().data(), y.back().data()));
    }
    f(ConstMatrixView(input.data(), rows, n_in, x_stride), std::span<const LinearJob>(list));
    std::vector<std::vector<float>> result;
    for (const auto& values : y) result.push_back(values.read());
    return result;
  }

 private:
  LinearJob linear_job(size_t j, DType type, const void* w, float* y) const {
    const Job& job = jobs[j];
    return {WeightView{type, job.n_out, n_in, w}, MatrixView{y, rows, job.n_out, job.n_out + 3},
            job.accumulate, job.scale};
  }
};

}  // namespace chimere::kernels::cuda::test

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_TEST_DATA_H_
