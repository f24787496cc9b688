#include "kernels/cuda/embed_tokens.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "base/fresh_seed.h"
#include "kernels/cuda/device_test_data.h"
#include "quant/quant.h"

namespace chimere::kernels::cuda {
namespace {

using test::OnDevice;

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,    DType::kBF16,   DType::kQ8_0,
                            DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0,   DType::kQ5_1,
                            DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,   DType::kQ5_K,
                            DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};

/// Random bytes. 16-bit scales that are NaN are drawn again, because the bits of a converted NaN
/// depend on the GPU.
std::vector<uint8_t> random_row(std::mt19937_64& random, DType type, int64_t n) {
  std::vector<uint8_t> row(static_cast<size_t>(row_bytes(type, n)));
  std::vector<float> decoded(static_cast<size_t>(n));
  const auto block = static_cast<size_t>(dtype_info(type).block_bytes);
  const int elements = dtype_info(type).block_elements;
  for (size_t at = 0; at < row.size(); at += block) {
    bool numbers = false;
    while (!numbers) {
      for (size_t i = 0; i < block; ++i) row[at + i] = static_cast<uint8_t>(random());
      quant::decode(type, row.data() + at, decoded.data(), elements);
      numbers = true;
      for (int i = 0; i < elements; ++i) {
        numbers = numbers && std::isfinite(decoded[static_cast<size_t>(i)]);
      }
    }
  }
  return row;
}

TEST(CudaEmbedTokens, DecodesEveryFormatLikeQuantDecode) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const DType type : kTypes) {
    ASSERT_TRUE(embeds_on_gpu(type)) << dtype_name(type);
    for (const int64_t n : {256, 768, 2048, 2304}) {
      constexpr int64_t kTokens = 9;
      std::vector<uint8_t> table;
      for (int64_t t = 0; t < kTokens; ++t) {
        const std::vector<uint8_t> row = random_row(random, type, n);
        table.insert(table.end(), row.begin(), row.end());
      }
      const std::vector<int32_t> chosen = {7, 3, -1, 8, 0};
      const std::vector<int32_t> places = {4, 0, 3, ~5, 3, 2, ~0, 1};
      const auto rows = static_cast<int64_t>(places.size());
      for (const auto& [name, device] : test::devices()) {
        auto pinned = device->pinned(table.size());
        ASSERT_TRUE(pinned.ok());
        std::memcpy((*pinned)->data(), table.data(), table.size());
        const OnDevice<int32_t> tokens(*device, chosen);
        const OnDevice<int32_t> async_from(*device, places);
        const OnDevice<float> y(*device, std::vector<float>(static_cast<size_t>(rows * n), -7));
        embed_tokens(device->stream(), {type, kTokens, n, (*pinned)->data()}, tokens.data(),
                     async_from.data(), {y.data(), rows, n, n});
        const std::vector<float> got = y.read();
        std::vector<float> want(static_cast<size_t>(n));
        for (int64_t r = 0; r < rows; ++r) {
          const int32_t place = places[static_cast<size_t>(r)];
          const int32_t token = place < 0 ? ~place : chosen[static_cast<size_t>(place)];
          quant::decode(type, table.data() + std::max(0, token) * row_bytes(type, n), want.data(),
                        n);
          EXPECT_EQ(std::memcmp(got.data() + r * n, want.data(), want.size() * sizeof(float)), 0)
              << name << ", " << dtype_name(type) << ", row " << r << " of " << n;
        }
      }
    }
  }
}

TEST(CudaEmbedTokens, DecodesScalesThatAreNotNumbers) {
  const auto seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr int64_t n = 1280;  // a whole piece and part of another
  for (const DType type : kTypes) {
    constexpr int64_t kTokens = 64;
    std::vector<uint8_t> table(static_cast<size_t>(kTokens * row_bytes(type, n)));
    for (uint8_t& byte : table) byte = static_cast<uint8_t>(random() % 4 == 0 ? 0xFF : random());
    std::vector<float> want(static_cast<size_t>(kTokens * n));
    quant::decode(type, table.data(), want.data(), kTokens * n);
    std::vector<int32_t> all(kTokens);
    std::iota(all.begin(), all.end(), 0);
    for (const auto& [name, device] : test::devices()) {
      const OnDevice<uint8_t> rows(*device, table);
      const OnDevice<int32_t> tokens(*device, all);
      const OnDevice<float> y(*device, std::vector<float>(want.size(), -7));
      embed_tokens(device->stream(), {type, kTokens, n, rows.data()}, tokens.data(), tokens.data(),
                   {y.data(), kTokens, n, n});
      const std::vector<float> got = y.read();
      for (size_t i = 0; i < want.size(); ++i) {
        // The payload of a NaN may differ.
        if (std::isnan(want[i]) && std::isnan(got[i])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
            << name << ", " << dtype_name(type) << ", element " << i;
      }
    }
  }
}

TEST(CudaEmbedTokens, DoesNotSupportFormatsWithVectorCodebooks) {
  for (const DType type : {DType::kIQ1_S, DType::kIQ2_XS, DType::kIQ3_S, DType::kF64}) {
    EXPECT_FALSE(embeds_on_gpu(type)) << dtype_name(type);
  }
}

}  // namespace
}  // namespace chimere::kernels::cuda
