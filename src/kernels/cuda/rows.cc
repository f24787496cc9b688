#include "kernels/cuda/rows.h"

#include "kernels/cuda/rows_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kSelectRows = {"rows", "select_rows"};
constexpr Kernel kShiftRows = {"rows", "shift_rows"};
constexpr Kernel kActivate = {"rows", "activate"};
constexpr Kernel kAddRows = {"rows", "add_rows"};
constexpr Kernel kCopyRows = {"rows", "copy_rows"};
constexpr Kernel kMultiplyRows = {"rows", "multiply_rows"};
constexpr Kernel kScale = {"rows", "scale"};
constexpr Kernel kRoute = {"route", "route"};
constexpr Kernel kRouteScored = {"route", "route_scored"};
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

void activate(Stream& stream, Activation f, MatrixView h, ConstMatrixView up,
              const RoundedRows& rounded) {
  stream.launch(
      kActivate, rows_launch({blocks_for(h.cols, kRowThreads), static_cast<uint32_t>(h.rows)}),
      ActivateArgs{h.data, h.stride, up.data, up.stride, rounded, static_cast<int32_t>(h.cols), f});
}

void add_bias(Stream& stream, MatrixView y, const float* bias) {
  stream.launch(kAddRows,
                rows_launch({blocks_for(y.cols, kRowThreads), static_cast<uint32_t>(y.rows)}),
                CombineArgs{y.data, y.stride, bias, 0, static_cast<int32_t>(y.cols)});
}

void copy(Stream& stream, ConstMatrixView x, MatrixView y) {
  stream.launch(kCopyRows,
                rows_launch({blocks_for(y.cols, kRowThreads), static_cast<uint32_t>(y.rows)}),
                CombineArgs{y.data, y.stride, x.data, x.stride, static_cast<int32_t>(y.cols)});
}

void multiply(Stream& stream, ConstMatrixView x, MatrixView y) {
  stream.launch(kMultiplyRows,
                rows_launch({blocks_for(y.cols, kRowThreads), static_cast<uint32_t>(y.rows)}),
                CombineArgs{y.data, y.stride, x.data, x.stride, static_cast<int32_t>(y.cols)});
}

void scale(Stream& stream, MatrixView x, float factor) {
  stream.launch(kScale,
                rows_launch({blocks_for(x.cols, kRowThreads), static_cast<uint32_t>(x.rows)}),
                ScaleArgs{x.data, x.stride, static_cast<int32_t>(x.cols), factor});
}

void route(Stream& stream, ConstMatrixView logits, const RoutingSpec& spec,
           const Routing& routing) {
  RouteArgs args = {};
  args.logits = logits.data;
  args.stride = logits.stride;
  args.ids = routing.ids;
  args.weights = routing.weights;
  args.rows = static_cast<int32_t>(logits.rows);
  args.n_experts = static_cast<int32_t>(logits.cols);
  args.n_used = routing.n_used;
  args.warm_icache = logits.rows <= kFewRoutedRows ? 1 : 0;
  args.scale = spec.scale;
  args.score = static_cast<int32_t>(spec.score);
  args.bias = spec.bias;
  args.n_groups = spec.has_groups() ? spec.n_groups : 0;
  args.n_groups_used = spec.n_groups_used;
  args.selects_by_logits = spec.selects_by_logits() ? 1 : 0;
  args.weighs_by_logits = spec.weighs_by_logits() ? 1 : 0;
  args.normalise = spec.normalise ? 1 : 0;
  const bool by_logits = spec.selects_by_logits() && spec.weighs_by_logits();
  stream.launch(by_logits ? kRoute : kRouteScored,
                {.grid = {blocks_for(logits.rows, kRouteThreads / 32)},
                 .block = {kRouteThreads},
                 .overlaps_previous = true},
                args);
}

void keep_top_p(Stream& stream, const Routing& routing, const RowSet& rows, float top_p,
                ExpertUse* use) {
  stream.launch(kKeepTopP, rows_launch({blocks_for(rows.count, kRowThreads)}),
                KeepTopPArgs{routing.ids, routing.weights, &use->rows, rows.ids, rows.count,
                             routing.n_used, top_p});
}

}  // namespace chimere::kernels::cuda
