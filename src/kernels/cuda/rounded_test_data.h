// Rounded activations in device memory, for tests.
#ifndef CHIMERE_KERNELS_CUDA_ROUNDED_TEST_DATA_H_
#define CHIMERE_KERNELS_CUDA_ROUNDED_TEST_DATA_H_

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/device_test_data.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/ref/linear.h"

namespace chimere::kernels::cuda::test {

/// Memory for rounded rows and their tiles, and a check of its contents.
class RoundedMemory {
 public:
  RoundedMemory(Device& device, int64_t rows, int64_t n)
      : rows_(rows),
        n_(n),
        memory_(device,
                std::vector<uint8_t>(static_cast<size_t>(tiled_rounded_bytes(rows, n)), 0xFF)) {}
  RoundedRows rows() const { return tiled_rounded_rows_at(memory_.data(), rows_, n_); }

  void expect(const kernels::test::Matrix& values, const std::string& name) const {
    const std::vector<uint8_t> bytes = memory_.read();
    auto at = [&](const void* p) {
      return bytes.data() + (static_cast<const uint8_t*>(p) - memory_.data());
    };
    const int64_t in_row = n_ / 32;
    for (int64_t r = 0; r < rows_; ++r) {
      const ref::Activations a = ref::round_activations(values.row(r), n_);
      for (int64_t b = 0; b < in_row; ++b) {
        const int64_t tiled = (r / kRoundedTile * in_row + b) * kRoundedTile + r % kRoundedTile;
        for (const auto& [q, blocks, place] :
             {std::tuple(rows().q, rows().blocks, r * in_row + b),
              std::tuple(rows().tile_q, rows().tile_blocks, tiled)}) {
          EXPECT_EQ(std::memcmp(at(q + 32 * place), a.q.data() + 32 * b, 32), 0) << name;
          RoundedBlock block;
          std::memcpy(&block, at(blocks + place), sizeof block);
          EXPECT_EQ(block.d, a.d[static_cast<size_t>(b)]) << name;
          for (int64_t half = 0; half < 2; ++half) {
            const auto first = a.q.begin() + 32 * b + 16 * half;
            EXPECT_EQ(block.sums[half], std::accumulate(first, first + 16, 0)) << name;
          }
        }
      }
    }
  }

 private:
  int64_t rows_;
  int64_t n_;
  OnDevice<uint8_t> memory_;
};

}  // namespace chimere::kernels::cuda::test

#endif  // CHIMERE_KERNELS_CUDA_ROUNDED_TEST_DATA_H_
