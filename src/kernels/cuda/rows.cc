#include "kernels/cuda/rows.h"

#include "kernels/cuda/rows_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kSelectRows = {"rows", "select_rows"};
constexpr Kernel kShiftRows = {"rows", "shift_rows"};
constexpr Kernel kSiluMultiply = {"rows", "silu_multiply"};
constexpr Kernel kRoute = {"rows", "route"};
constexpr Kernel kKeepTopP = {"rows", "keep_top_p"};

uint32_t blocks_for(int64_t n, int64_t of_a_block) {
  return static_cast<uint32_t>((n + of_a_block - 1) / of_a_block);
}

Launch rows_launch(Dim grid) {
  return {.grid = grid, .block = {kRowThreads}, .overlaps_previous = true};
}

}  // namespace

void select_rows(Stream& stream, ConstMatrixView x, const int32_t* ids, MatrixView y) {
  stream.launch(
      kSelectRows, rows_launch({static_cast<uint32_t>(y.rows)}),
      SelectRowsArgs{x.data, x.stride, ids, y.data, y.stride, static_cast<int32_t>(y.cols)});
}

void shift_rows(Stream& stream, const DeviceBatch& batch, ConstMatrixView x, RecurrentView state,
                MatrixView y) {
  ShiftRowsArgs args = {};
  args.x = x.data;
  args.x_stride = x.stride;
  args.state = state.base;
  args.slot_stride = state.slot_stride;
  args.kept = state.rows;
  args.row_stride = state.row_stride;
  args.y = y.data;
  args.y_stride = y.stride;
  args.batch = batch.args;
  if (batch.extent.folds == 0) args.batch.fold_begin = nullptr;
  if (batch.extent.keeps == 0) args.batch.keep_row = nullptr;
  args.rows = batch.extent.n_rows;
  args.n = static_cast<int32_t>(y.cols);
  stream.launch(kShiftRows, rows_launch({static_cast<uint32_t>(args.rows)}), args);
}

void silu_multiply(Stream& stream, MatrixView gate, ConstMatrixView up) {
  stream.launch(kSiluMultiply,
                rows_launch({blocks_for(gate.cols, kRowThreads), static_cast<uint32_t>(gate.rows)}),
                SiluMultiplyArgs{gate.data, gate.stride, up.data, up.stride,
                                 static_cast<int32_t>(gate.cols)});
}

void route(Stream& stream, ConstMatrixView logits, const Routing& routing) {
  stream.launch(kRoute,
                {.grid = {blocks_for(logits.rows, kRouteThreads / 32)},
                 .block = {kRouteThreads},
                 .overlaps_previous = true},
                RouteArgs{logits.data, logits.stride, routing.ids, routing.weights,
                          static_cast<int32_t>(logits.rows), static_cast<int32_t>(logits.cols),
                          routing.n_used, logits.rows <= kFewRoutedRows ? 1 : 0});
}

void keep_top_p(Stream& stream, const Routing& routing, const RowSet& rows, float top_p,
                ExpertUse* use) {
  stream.launch(kKeepTopP, rows_launch({blocks_for(rows.count, kRowThreads)}),
                KeepTopPArgs{routing.ids, routing.weights, &use->rows, rows.ids, rows.count,
                             routing.n_used, top_p});
}

}  // namespace chimere::kernels::cuda
