// A model on one of several back ends: the scalar ops, the CPU, and the test devices.
#ifndef CHIMERE_TESTS_DEVICE_STEP_RUNNER_H_
#define CHIMERE_TESTS_DEVICE_STEP_RUNNER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_test_data.h"
#include "model/model.h"

namespace chimere::test {

using Tokens = std::vector<int32_t>;
using Floats = std::vector<float>;

struct BackEnd {
  std::string name;
  std::function<std::unique_ptr<kernels::Ops>(ThreadPool& pool)> make_ops;
};

inline BackEnd scalar_back_end() {
  return {"scalar", [](ThreadPool& /*pool*/) { return kernels::make_ref_ops(); }};
}

inline std::vector<BackEnd> back_ends() {
  std::vector<BackEnd> all = {
      scalar_back_end(), {"CPU", [](ThreadPool& pool) { return kernels::make_cpu_ops(pool); }}};
  for (const kernels::cuda::test::TestDevice& d : kernels::cuda::test::devices()) {
    all.push_back({d.name, [&d](ThreadPool& pool) {
                     return kernels::cuda::make_cuda_ops(*d.device, pool, {}).value();
                   }});
  }
  return all;
}

/// A model and the ops that it runs on. The file must outlive it.
struct StepRunner {
  explicit StepRunner(const gguf::Reader& file, const BackEnd& back_end,
                      const model::ModelOptions& options = {})
      : pool(std::make_unique<ThreadPool>(2)),
        ops(back_end.make_ops(*pool)),
        model(model::load_model(file, *ops, options).value()) {}

  /// The requested logits, row by row; empty if the step failed.
  Floats forward(const model::StepPlan& plan) const {
    const auto result = model->forward(plan);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    if (!result.ok()) return {};
    const ConstMatrixView& l = result->logits;
    return {l.data, l.data + l.rows * l.cols};
  }

  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
};

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_DEVICE_STEP_RUNNER_H_
