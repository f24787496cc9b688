// Adapters on a GPU: y += factor · B (A x), with the bits of the oracle for rows of all classes.
#ifndef CHIMERE_KERNELS_CUDA_LOW_RANK_H_
#define CHIMERE_KERNELS_CUDA_LOW_RANK_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/low_rank_args.h"
#include "kernels/cuda/scratch.h"

namespace chimere::kernels::cuda {

/// RowAdapters in device memory.
struct DeviceAdapters {
  const int32_t* begin = nullptr;
  const AdapterUse* uses = nullptr;
  int32_t most = 0;  ///< adapters of a row, at least those of the step

  bool empty() const { return begin == nullptr; }
};

/// The adapters that were placed on a device, as f32, and their products.
class LowRankProducts {
 public:
  explicit LowRankProducts(Device& device) : device_(device), inner_(device) {}

  /// Ops::place_adapter(). Errors: kInvalidArgument, kOutOfMemory, kIo.
  Result<int32_t> add(const LowRankAdapter& adapter);
  void drop(int32_t number);
  /// Changes whenever launches for the same step would change; above 0.
  int32_t version() const { return version_; }

  /// Adds the adapters' products to those of the jobs. x [rows, n_in]; `ids`: [rows] their rows of
  /// the step, on the device; nullptr: the same. Errors: kOutOfMemory.
  Status add_products(ConstMatrixView x, const int32_t* ids, const DeviceAdapters& adapters,
                      std::span<const LinearJob> jobs);

 private:
  using Entries = std::array<LowRankEntry, kMaxAdapters>;

  Status upload(int32_t number, const LowRankAdapter& adapter);
  Result<const float*> place(const WeightView& w, int32_t number);
  Status write_table();

  Device& device_;
  Scratch inner_;
  std::vector<Entries> entries_;        ///< by target; equal to table_
  std::unique_ptr<MemoryRange> table_;  ///< [targets, kMaxAdapters]
  std::array<bool, kMaxAdapters> used_{};
  std::array<std::vector<std::unique_ptr<MemoryRange>>, kMaxAdapters> memory_;
  int32_t max_rank_ = 0;
  int32_t version_ = 1;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LOW_RANK_H_
