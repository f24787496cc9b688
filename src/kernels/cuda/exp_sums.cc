#include "kernels/cuda/exp_sums.h"

#include "kernels/cuda/exp_sums_args.h"
#include "kernels/exp_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kExpPieces = {"exp_sums", "exp_pieces"};
constexpr Kernel kExpRows = {"exp_sums", "exp_rows"};

static_assert(sizeof(ExpSumsArgs) == sizeof(ExpSums));
static_assert(kExpStrands == kExpThreads && kExpThreads % kExpLanes == 0);

int64_t pieces_of(int64_t n) { return (n + kExpPiece - 1) / kExpPiece; }

}  // namespace

int64_t exp_sums_scratch_bytes(int64_t rows, int64_t n_vocab) {
  return rows * pieces_of(n_vocab) * static_cast<int64_t>(sizeof(ExpSums));
}

void exp_sums(Stream& stream, ConstMatrixView logits, ExpSums* sums, uint8_t* scratch) {
  if (logits.rows == 0) return;
  constexpr uint32_t kPieces = kExpThreads / kExpLanes;  // of a block
  const auto n_pieces = static_cast<uint32_t>(pieces_of(logits.cols));
  const auto rows = static_cast<uint32_t>(logits.rows);
  auto* const pieces = reinterpret_cast<ExpSumsArgs*>(scratch);
  const ExpPiecesArgs of_pieces = {logits.data, logits.stride, pieces,
                                   static_cast<int32_t>(logits.cols),
                                   static_cast<int32_t>(n_pieces)};
  stream.launch(kExpPieces,
                {.grid = {(n_pieces + kPieces - 1) / kPieces, rows},
                 .block = {kExpThreads},
                 .overlaps_previous = true},
                of_pieces);
  const ExpRowsArgs of_rows = {pieces, reinterpret_cast<ExpSumsArgs*>(sums),
                               static_cast<int32_t>(n_pieces)};
  stream.launch(kExpRows, {.grid = {rows}, .block = {kExpThreads}, .overlaps_previous = true},
                of_rows);
}

}  // namespace chimere::kernels::cuda
