// Tiny models in memory, and answers of them, for the tests of architectures.
#ifndef CHIMERE_TESTS_SUPPORT_MODEL_RUNNER_H_
#define CHIMERE_TESTS_SUPPORT_MODEL_RUNNER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/isa.h"
#include "model/model.h"
#include "support/synthetic_model.h"

namespace chimere::test {

/// A model in memory.
struct Runner {
  std::vector<uint8_t> bytes;
  std::unique_ptr<gguf::Reader> file;
  ThreadPool pool{2};
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<model::Model> model;
  Error error;

  Runner(std::vector<uint8_t> file_bytes, std::unique_ptr<kernels::Ops> with,
         const model::ModelOptions& options = {})
      : bytes(std::move(file_bytes)), ops(std::move(with)) {
    file = gguf::Reader::from_bytes(bytes.data(), bytes.size()).value();
    load(options);
  }
  /// On the CPU.
  explicit Runner(std::vector<uint8_t> file_bytes, kernels::CpuIsa isa = kernels::best_cpu_isa(),
                  const model::ModelOptions& options = {})
      : bytes(std::move(file_bytes)) {
    ops = kernels::make_cpu_ops(pool, isa);
    file = gguf::Reader::from_bytes(bytes.data(), bytes.size()).value();
    load(options);
  }

  void load(const model::ModelOptions& options) {
    auto loaded = load_any_model(*file, *ops, options);
    if (loaded.ok()) {
      model = std::move(loaded).value();
    } else {
      error = loaded.error();
    }
  }
};

inline model::SequenceRows rows_of(state::SequenceState& state, const std::vector<int32_t>& tokens,
                                   model::RowClass row_class) {
  model::SequenceRows rows;
  rows.state = &state;
  rows.row_class = row_class;
  rows.tokens = tokens;
  if (row_class == model::RowClass::kPrefill) rows.chunks = {static_cast<int32_t>(tokens.size())};
  for (size_t i = 0; i < tokens.size(); ++i) rows.logits_of.push_back(static_cast<int32_t>(i));
  return rows;
}

inline std::vector<float> values(const Result<model::StepResult>& result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  if (!result.ok()) return {};
  const ConstMatrixView& m = result->logits;
  std::vector<float> v;
  for (int64_t r = 0; r < m.rows; ++r) v.insert(v.end(), m.row(r), m.row(r) + m.cols);
  return v;
}

inline std::vector<float> run(const Runner& runner, state::SequenceState& state,
                              const std::vector<int32_t>& tokens, model::RowClass row_class) {
  return values(runner.model->forward({{rows_of(state, tokens, row_class)}}));
}

inline std::vector<int32_t> random_tokens(std::mt19937& rng, int n_vocab, size_t n) {
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(rng() % static_cast<uint32_t>(n_vocab));
  return tokens;
}

/// A prompt as one chunk, then decode rows in steps of one and of several; all logits.
inline std::vector<float> answer(const Runner& runner, const std::vector<int32_t>& prompt,
                                 const std::vector<int32_t>& continuation) {
  const auto state = runner.model->states().create_sequence();
  std::vector<float> all = run(runner, *state, prompt, model::RowClass::kPrefill);
  const auto append = [&](const std::vector<float>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append(run(runner, *state, {continuation[0]}, model::RowClass::kDecode));
  append(run(runner, *state, {continuation.begin() + 1, continuation.end()},
             model::RowClass::kDecode));
  return all;
}

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_MODEL_RUNNER_H_
