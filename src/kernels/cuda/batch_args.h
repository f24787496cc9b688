// A step's rows as device code sees them: BatchView with plain pointers.
#ifndef CHIMERE_KERNELS_CUDA_BATCH_ARGS_H_
#define CHIMERE_KERNELS_CUDA_BATCH_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// Slice of kernels/api.h, with the same layout.
struct SliceArgs {
  int32_t sequence;
  int32_t row_begin;
  int32_t row_count;
  int32_t row_class;
};

/// RowClass of kernels/api.h.
inline constexpr int32_t kPrefillRows = 0;
inline constexpr int32_t kDecodeRows = 1;

/// A BatchView in device memory. The contents may change between replays of a captured launch,
/// which may cover more rows than the step has: slices without rows and sequences without slices
/// are no-ops.
struct BatchArgs {
  const SliceArgs* slices;
  const int32_t* sequence_slices;  ///< [n_sequences + 1]
  const int32_t* row_sequence;     ///< [n_rows]
  const int32_t* row_position;     ///< [n_rows]
  const int32_t* row_visible;      ///< [n_rows]: BatchView::visible()
  const int32_t* read_slot;        ///< [n_sequences]
  const int32_t* write_slot;       ///< [n_rows]
  const int32_t* page_table;
  const int32_t* page_begin;  ///< [page groups, n_sequences]
  // Read only in steps that fold rows, or keep some (BatchExtent).
  const int32_t* fold_rows;
  const int32_t* fold_begin;  ///< [n_sequences + 1] into fold_rows, not from 0 on
  const int32_t* fold_from;   ///< [n_sequences]
  const int32_t* keep_row;    ///< [n_rows]
};

/// Rows of f32, `stride` elements apart.
struct Rows {
  float* data;
  int64_t stride;
};

struct ConstRows {
  const float* data;
  int64_t stride;
};

/// RecurrentView.
struct SlotArgs {
  float* base;
  int64_t stride;  ///< in floats
  float* rows;
  int64_t row_stride;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_BATCH_ARGS_H_
