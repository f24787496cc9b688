#include "kernels/cuda/log_sum_exp.h"

#include "kernels/cuda/log_sum_exp_args.h"
#include "kernels/exp_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kExpPieces = {"log_sum_exp", "exp_pieces"};
constexpr Kernel kExpRows = {"log_sum_exp", "exp_rows"};

static_assert(sizeof(LogSumExpArgs) == sizeof(LogSumExp));
static_assert(kExpLanesOfRow == kExpThreads && kExpThreads % kExpLanes == 0);

int64_t pieces_of(int64_t n) { return (n + kExpPiece - 1) / kExpPiece; }

}  // namespace

int64_t log_sum_exp_scratch_bytes(int64_t rows, int64_t n_vocab) {
  return rows * pieces_of(n_vocab) * static_cast<int64_t>(sizeof(LogSumExp));
}

void log_sum_exp(Stream& stream, ConstMatrixView logits, LogSumExp* sums, uint8_t* scratch) {
  if (logits.rows == 0) return;
  constexpr uint32_t kPieces = kExpThreads / kExpLanes;  // per block
  const auto n_pieces = static_cast<uint32_t>(pieces_of(logits.cols));
  const auto rows = static_cast<uint32_t>(logits.rows);
  auto* const pieces = reinterpret_cast<LogSumExpArgs*>(scratch);
  const ExpPiecesArgs of_pieces = {logits.data, logits.stride, pieces,
                                   static_cast<int32_t>(logits.cols),
                                   static_cast<int32_t>(n_pieces)};
  stream.launch(kExpPieces,
                {.grid = {(n_pieces + kPieces - 1) / kPieces, rows},
                 .block = {kExpThreads},
                 .overlaps_previous = true},
                of_pieces);
  const ExpRowsArgs of_rows = {pieces, reinterpret_cast<LogSumExpArgs*>(sums),
                               static_cast<int32_t>(n_pieces)};
  stream.launch(kExpRows, {.grid = {rows}, .block = {kExpThreads}, .overlaps_previous = true},
                of_rows);
}

}  // namespace chimere::kernels::cuda
