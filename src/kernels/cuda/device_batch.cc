#include "kernels/cuda/device_batch.h"

#include <algorithm>

namespace chimere::kernels::cuda {

BatchExtent extent_of(const BatchView& batch) {
  BatchExtent e;
  e.n_rows = batch.n_rows;
  e.n_sequences = batch.n_sequences;
  e.n_slices = static_cast<int32_t>(batch.slices.size());
  for (int32_t s = 0; s < batch.n_sequences; ++s) {
    int32_t rows = 0;
    int32_t runs = 0;
    for (int32_t i = batch.sequence_slices[s]; i < batch.sequence_slices[s + 1]; ++i) {
      const Slice& slice = batch.slices[i];
      const bool first = i == batch.sequence_slices[s];
      if (first || batch.slices[i - 1].row_class != slice.row_class) ++runs;
      rows += slice.row_count;
      int32_t& most = slice.row_class == RowClass::kDecode ? e.decode_rows : e.prefill_rows;
      most = std::max(most, slice.row_count);
    }
    e.sequence_rows = std::max(e.sequence_rows, rows);
    e.runs = std::max(e.runs, runs);
  }
  for (int32_t r = 0; r < batch.n_rows; ++r) e.positions = std::max(e.positions, batch.visible(r));
  e.folds = batch.fold_rows.empty() ? 0 : 1;
  e.keeps = std::ranges::any_of(batch.keep_row, [](int32_t row) { return row >= 0; }) ? 1 : 0;
  return e;
}

}  // namespace chimere::kernels::cuda
