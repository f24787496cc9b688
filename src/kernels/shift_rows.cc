#include <algorithm>
#include <utility>

#include "kernels/api.h"

namespace chimere::kernels {

void Ops::shift_rows(const BatchView& batch, ConstMatrixView x, RecurrentView state, MatrixView y) {
  const auto slot = [&](int32_t s) { return state.base + s * state.slot_stride; };
  int32_t before = -1;  // the sequence of the row before
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int32_t sequence = batch.row_sequence[static_cast<size_t>(r)];
    const bool first = sequence != std::exchange(before, sequence);
    const float* from =
        first ? slot(batch.read_slot[static_cast<size_t>(sequence)]) : x.row(int64_t{r} - 1);
    std::copy_n(from, x.cols, y.row(r));
    // The state may be read and written in one slot: its first row has taken what it needs.
    const int32_t to = batch.write_slot[static_cast<size_t>(r)];
    if (to >= 0) std::copy_n(x.row(r), x.cols, slot(to));
  }
}

}  // namespace chimere::kernels
