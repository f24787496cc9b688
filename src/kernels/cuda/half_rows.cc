#include "kernels/cuda/half_rows.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kHalfRows = {"half_rows", "half_rows"};

void launch(Stream& stream, const HalfRowsArgs& args) {
  constexpr int kRows = kHalfRowsThreads / 32;
  stream.launch(kHalfRows,
                {.grid = {static_cast<uint32_t>((args.rows + kRows - 1) / kRows)},
                 .block = {kHalfRowsThreads},
                 .overlaps_previous = true},
                args);
}

}  // namespace

int64_t half_rows_bytes(int64_t rows, int64_t n) {
  const int64_t bytes = rows * n * static_cast<int64_t>(sizeof(uint16_t)) +
                        rows * static_cast<int64_t>(sizeof(float));
  return (bytes + 15) / 16 * 16;
}

HalfRows half_rows_at(uint8_t* memory, int64_t rows, int64_t n) {
  auto* const x = reinterpret_cast<uint16_t*>(memory);
  return {x, reinterpret_cast<float*>(x + rows * n)};
}

void half_rows(Stream& stream, ConstMatrixView x, const RowSet& rows, const HalfRows& to) {
  const auto n = static_cast<int32_t>(x.cols);
  launch(stream, {x.data, x.stride, to, rows.ids, rows.count, n, n, rows.count, 0});
}

void half_rows_of_two(Stream& stream, ConstMatrixView x, int64_t other_from, int64_t n,
                      int64_t other_n, const HalfRows& to) {
  launch(stream, {x.data, x.stride, to, nullptr, static_cast<int32_t>(x.rows),
                  static_cast<int32_t>(x.cols), static_cast<int32_t>(n),
                  static_cast<int32_t>(other_from), static_cast<int32_t>(other_n)});
}

}  // namespace chimere::kernels::cuda
