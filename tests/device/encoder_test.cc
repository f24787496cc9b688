// Encoders on a device: hidden states near the CPU's, and the same bits in any batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "model/chunking.h"
#include "step_runner.h"
#include "support/encoder_model.h"

namespace chimere::model {
namespace {

using test::Floats;
using test::StepRunner;

/// The final hidden states of all rows, the texts' one after the other.
Floats hidden_states(const StepRunner& runner, const std::vector<std::vector<int32_t>>& texts) {
  StepPlan plan;
  std::vector<std::unique_ptr<state::SequenceState>> states;
  for (const std::vector<int32_t>& tokens : texts) {
    states.push_back(runner.model->states().create_sequence());
    SequenceRows rows;
    rows.state = states.back().get();
    rows.row_class = RowClass::kPrefill;
    rows.tokens = tokens;
    rows.chunks = chunk_sizes(tokens, {});
    if (runner.model->has_segments() && tokens.size() > 1) rows.second_segment = 1;
    for (size_t r = 0; r < tokens.size(); ++r) rows.logits_of.push_back(static_cast<int32_t>(r));
    plan.sequences.push_back(std::move(rows));
  }
  return runner.forward(plan);
}

class EncoderOnDevice : public testing::TestWithParam<const char*> {};

TEST_P(EncoderOnDevice, HasHiddenStatesNearTheCpusInAnyBatch) {
  std::mt19937 rng(fresh_seed());
  for (const DType type : {DType::kF32, DType::kQ8_0}) {
    const auto writer = test::make_encoder_model(
        {.architecture = GetParam(), .seed = rng(), .n_layers = 3, .weights = type});
    ASSERT_TRUE(writer.ok());
    const std::vector<uint8_t> bytes = writer->bytes();
    const auto file = gguf::Reader::from_bytes(bytes.data(), bytes.size());
    ASSERT_TRUE(file.ok());
    std::vector<std::vector<int32_t>> texts(3);
    for (auto& text : texts) {
      text.resize(1 + rng() % 80);
      for (int32_t& token : text) token = static_cast<int32_t>(rng() % test::kEncoderTokens);
    }
    Floats expected;
    for (const test::BackEnd& back_end : test::back_ends()) {
      if (back_end.name == "scalar") continue;
      const StepRunner runner(**file, back_end);
      const Floats together = hidden_states(runner, texts);
      Floats alone;
      for (const auto& text : texts) {
        const Floats one = hidden_states(runner, {text});
        alone.insert(alone.end(), one.begin(), one.end());
      }
      EXPECT_EQ(together, alone) << back_end.name;
      if (expected.empty()) expected = together;
      ASSERT_EQ(together.size(), expected.size());
      float largest = 0;
      for (size_t i = 0; i < together.size(); ++i) {
        largest = std::max(largest, std::abs(together[i] - expected[i]));
      }
      // Weights of q8_0 meet activations in f16 on a GPU and in int8 on a CPU.
      EXPECT_LT(largest, type == DType::kF32 ? 1e-4F : 0.3F) << back_end.name;
      std::printf("%s %s: largest difference %.1e\n", GetParam(), back_end.name.c_str(), largest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, EncoderOnDevice, testing::ValuesIn(test::kEncoders));

}  // namespace
}  // namespace chimere::model
