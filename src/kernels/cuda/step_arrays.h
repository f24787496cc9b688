// The arrays that a step's launches read besides weights and activations (rows, sequences, slots,
// changed pages), uploaded by one copy.
#ifndef CHIMERE_KERNELS_CUDA_STEP_ARRAYS_H_
#define CHIMERE_KERNELS_CUDA_STEP_ARRAYS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/cuda/low_rank.h"
#include "kernels/cuda/page_tables.h"

namespace chimere::kernels::cuda {

/// Rows by class; products of the two differ (docs/numerics.md, rule 9).
struct RowClasses {
  RowSet decode;
  RowSet prefill;
};

/// Most rows of a step that can be captured, all of them decode rows. Its arrays have the same
/// addresses in every step.
inline constexpr int32_t kMaxGraphRows = 64;

class StepArrays {
 public:
  /// Errors: kOutOfMemory.
  static Result<StepArrays> create(Device& device);

  /// Submits the copy of a step's arrays, and the update of `pages` with the step's lists
  /// (`interleaved`: see PageTables::prepare()). The copy of the step before the previous one must
  /// have ended. Errors: kOutOfMemory.
  Status upload(const StepInputs& step, PageTables& pages, bool interleaved);
  /// Bytes that the last upload() copied.
  int64_t uploaded_bytes() const { return static_cast<int64_t>(used_ * sizeof(int32_t)); }

  /// Makes launches cover `positions` positions, at least the step's.
  void widen(int32_t positions) { batch_.extent.positions = positions; }

  /// The uploaded step; addresses on the device.
  const DeviceBatch& batch() const { return batch_; }
  const RowClasses& all_rows() const { return all_; }
  /// The wanted rows, numbered from 0 in the order of Ops::select_rows' output.
  const RowClasses& wanted_rows() const { return wanted_; }
  const int32_t* wanted_ids() const { return wanted_ids_; }
  /// StepInputs::selected.
  const int32_t* selected_ids() const { return selected_ids_; }
  const uint32_t* masks() const { return masks_; }
  const TokenChoice* choices() const { return choices_; }
  const int32_t* async_from() const { return async_from_; }
  const DeviceAdapters& adapters() const { return adapters_; }

 private:
  StepArrays(Device& device, std::unique_ptr<MemoryRange> range)
      : device_(&device), range_(std::move(range)) {}
  /// Appends `values` in a field with space for `capacity` numbers; returns its address on the
  /// device.
  const int32_t* add(std::span<const int32_t> values, size_t capacity);
  /// The same for the rows of each class, `classes` being the class of every row.
  RowClasses add_classes(std::span<const RowClass> classes, size_t capacity);
  /// Adds the rows that the sequences fold, if any.
  void add_folds(const BatchView& batch, size_t capacity);
  Status make_room(size_t count);
  void find_classes(const StepInputs& step);

  struct Staging {
    std::unique_ptr<Pinned> memory;
    size_t count = 0;  ///< numbers
  };

  Device* device_;
  std::unique_ptr<MemoryRange> range_;
  std::array<Staging, 2> stagings_;  ///< of this step and of the previous one
  size_t turn_ = 0;                  ///< index of this step's
  size_t used_ = 0;                  ///< numbers appended
  DeviceBatch batch_;
  RowClasses all_;
  RowClasses wanted_;
  const int32_t* wanted_ids_ = nullptr;
  const int32_t* selected_ids_ = nullptr;
  const uint32_t* masks_ = nullptr;
  const TokenChoice* choices_ = nullptr;
  const int32_t* async_from_ = nullptr;
  DeviceAdapters adapters_;
  // Of the step that is being uploaded; members, so that a step allocates nothing.
  std::vector<RowClass> classes_;
  std::vector<RowClass> wanted_classes_;
  std::vector<int32_t> decode_rows_;
  std::vector<int32_t> prefill_rows_;
  std::vector<int32_t> visible_;
  std::vector<int32_t> fold_begin_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_STEP_ARRAYS_H_
