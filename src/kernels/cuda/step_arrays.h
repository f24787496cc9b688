// What a step's launches read besides weights and activations: its rows, sequences, pages and
// slots, brought to the device by one copy.
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

namespace chimere::kernels::cuda {

/// Rows by class; products of the two differ (docs/numerics.md, rule 9).
struct RowClasses {
  RowSet step;
  RowSet chunk;
};

/// Steps of at most so many rows, all of them decode rows, may be recorded: their arrays lie at the
/// same addresses in every step.
inline constexpr int32_t kMaxGraphRows = 64;

class StepArrays {
 public:
  /// Errors: kOutOfMemory.
  static Result<StepArrays> create(Device& device);

  /// Queues the copy of a step's arrays. That of the previous step but one is done. Errors:
  /// kOutOfMemory.
  Status upload(const StepInputs& step);

  /// Launches are made for so many positions, at least the step's.
  void widen(int32_t positions) { batch_.extent.positions = positions; }

  /// Of the step that was uploaded; addresses on the device.
  const DeviceBatch& batch() const { return batch_; }
  const RowClasses& all_rows() const { return all_; }
  /// Of the wanted rows, numbered from 0 as behind Ops::select_rows.
  const RowClasses& wanted_rows() const { return wanted_; }
  const int32_t* wanted_ids() const { return wanted_ids_; }
  /// StepInputs::listed.
  const int32_t* selected_ids() const { return selected_ids_; }
  const TokenChoice* choices() const { return choices_; }
  const int32_t* async_from() const { return async_from_; }

 private:
  StepArrays(Device& device, std::unique_ptr<MemoryRange> range)
      : device_(&device), range_(std::move(range)) {}
  /// Places `values` behind what is there, in a field with room for `capacity` numbers; its address
  /// on the device.
  const int32_t* add(std::span<const int32_t> values, size_t capacity);
  RowClasses add_classes(std::span<const RowClass> classes, size_t capacity);
  Status make_room(size_t count);

  struct Staging {
    std::unique_ptr<Pinned> memory;
    size_t count = 0;  ///< numbers
  };

  Device* device_;
  std::unique_ptr<MemoryRange> range_;
  std::array<Staging, 2> stagings_;  ///< of this step and the one before, or the other way round
  size_t turn_ = 0;                  ///< which is this step's
  size_t used_ = 0;                  ///< numbers placed
  DeviceBatch batch_;
  RowClasses all_;
  RowClasses wanted_;
  const int32_t* wanted_ids_ = nullptr;
  const int32_t* selected_ids_ = nullptr;
  const TokenChoice* choices_ = nullptr;
  const int32_t* async_from_ = nullptr;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_STEP_ARRAYS_H_
