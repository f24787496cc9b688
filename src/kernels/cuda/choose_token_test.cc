#include "kernels/cuda/choose_token.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/fresh_seed.h"
#include "kernels/cuda/device_test_data.h"

namespace chimere::kernels::cuda {
namespace {

using test::OnDevice;

/// A choice like those of sampling::Sampler, which begin with a cut to k.
TokenChoice random_choice(std::mt19937_64& random) {
  TokenChoice choice;
  choice.seed = random();
  choice.position = random() % 3 == 0 ? random() : random() % 10000;
  const auto add = [&](ChoiceSampler::Kind kind, double value) {
    choice.samplers[static_cast<size_t>(choice.n_samplers++)] = {kind, 0, value};
  };
  std::uniform_real_distribution<double> unit(0, 1);
  const bool scaled_first = random() % 4 == 0;
  const double scale = std::exp(6 * unit(random) - 3);
  if (scaled_first) add(ChoiceSampler::kScale, scale);
  add(ChoiceSampler::kTopK, random() % 4 == 0 ? static_cast<double>(1U << random() % 8)
                                              : static_cast<double>(1 + random() % 128));
  // Quarters are reached exactly if all logits are equal.
  const double shares[] = {0.0, 0.25, 0.5, 0.75};
  if (random() % 2 == 0) {
    add(ChoiceSampler::kTopP,
        random() % 3 == 0 ? shares[random() % std::size(shares)] : unit(random));
  }
  if (choice.n_samplers < 3 && random() % 2 == 0) {
    add(ChoiceSampler::kMinP, random() % 5 == 0 ? 0.0 : std::log(unit(random)));
  }
  if (!scaled_first) add(ChoiceSampler::kScale, scale);
  if (choice.n_samplers < TokenChoice::kMaxSamplers && random() % 4 == 0) {
    add(ChoiceSampler::kScale, 0.5 + unit(random));
  }
  return choice;
}

/// `count` top logits: few or many; some or all equal (and so large that all get the same Gumbel
/// score); with empty entries; or not numbers at all.
std::vector<TopLogit> random_largest(std::mt19937_64& random, int32_t count) {
  std::normal_distribution<float> normal(0, std::exp(static_cast<float>(random() % 7) - 3));
  std::vector<TopLogit> row(static_cast<size_t>(count));
  const uint64_t kind = random() % 10;
  int32_t id = 0;
  for (TopLogit& t : row) {
    id += static_cast<int32_t>(1 + random() % 1900);  // distinct ids
    t = {normal(random), id};
    if (random() % 4 == 0) t.value = std::round(t.value);
    if (kind == 0) t.value = 0.5F;
    if (kind == 1) t.value = 0x1p100F;
  }
  const auto before = [](const TopLogit& a, const TopLogit& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  };
  std::ranges::sort(row, before);
  const size_t filled = random() % 4 == 0 ? random() % (row.size() + 1) : row.size();
  for (size_t i = filled; i < row.size(); ++i) {
    row[i] = {-std::numeric_limits<float>::infinity(), -1};
  }
  if (random() % 20 == 0) row[0] = {std::numeric_limits<float>::infinity(), -1};
  return row;
}

TEST(CudaChooseToken, ChoosesTheTokensOfTheDefinition) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const int32_t count : {1, 32, 64, 128}) {
    constexpr int64_t kRows = 300;
    std::vector<TopLogit> top;
    std::vector<TokenChoice> choices;
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<TopLogit> row = random_largest(random, count);
      top.insert(top.end(), row.begin(), row.end());
      choices.push_back(random_choice(random));
    }
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<TopLogit> rows(*device, top);
      const OnDevice<TokenChoice> how(*device, choices);
      const OnDevice<int32_t> chosen(*device, std::vector<int32_t>(kRows, -7));
      choose_tokens(device->stream(), {rows.data(), kRows, count}, how.data(), chosen.data());
      const std::vector<int32_t> got = chosen.read();
      const TopLogits on_host = {top.data(), kRows, count};
      for (int64_t r = 0; r < kRows; ++r) {
        const auto row = static_cast<size_t>(r);
        EXPECT_EQ(got[row], choose_token(on_host.row(r), choices[row]))
            << name << ", row " << r << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
