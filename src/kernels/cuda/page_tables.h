// The page lists of sequences, kept in device memory between steps, so that a step uploads only the
// entries that have changed.
#ifndef CHIMERE_KERNELS_CUDA_PAGE_TABLES_H_
#define CHIMERE_KERNELS_CUDA_PAGE_TABLES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/page_tables_args.h"

namespace chimere::kernels::cuda {

/// One table for all sequences, at a fixed address. A sequence's list is a range of it, which is
/// found by BatchView::sequence_keys; the least recently used lists are dropped. A host copy of
/// each list tells which entries differ from those of a step.
class PageTables {
 public:
  /// Errors: kOutOfMemory (address space).
  static Result<PageTables> create(Device& device);

  /// Finds the entries that the step's lists change. `interleaved`: the step runs between the
  /// launches of an earlier one, whose lists stay where they are. Errors: kOutOfMemory; call
  /// forget_step() then.
  Status prepare(const BatchView& batch, bool interleaved);
  /// [page groups, n_sequences] where the prepared step's lists begin in the table.
  std::span<const int32_t> begins() const { return begins_; }
  /// What apply() must be given, at an address that the device reads.
  std::span<const PageUpdate> updates() const { return updates_; }
  /// Submits the prepared step's updates. `updates`: a copy of updates().
  void apply(Stream& stream, const PageUpdate* updates) const;
  /// Call it instead of apply() if the step cannot be submitted: the device's copy of its lists is
  /// not relied on.
  void forget_step();

  /// The table, in device memory.
  const int32_t* data() const { return reinterpret_cast<const int32_t*>(range_->data()); }

 private:
  struct List {
    int32_t begin = 0;
    int32_t capacity = 0;        ///< entries: 0 or a power of two
    std::vector<int32_t> pages;  ///< the entries on the device, once updates() are applied
    int32_t full_pages = 0;      ///< of `pages`, full before the last step's first row
    uint64_t last_use = 0;       ///< number of a step
  };

  explicit PageTables(std::unique_ptr<MemoryRange> range) : range_(std::move(range)) {}
  Result<List*> list_for(uint64_t key, int32_t pages);
  Status reserve(List& list, int32_t pages);
  void release(const List& list);
  void drop_unused_lists();

  std::unique_ptr<MemoryRange> range_;
  int32_t end_ = 0;                            ///< entries of the table that have been handed out
  std::array<std::vector<int32_t>, 31> free_;  ///< [log2(capacity)] released ranges
  std::unordered_map<uint64_t, List> lists_;   ///< by sequence key
  uint64_t step_ = 0;
  uint64_t oldest_in_use_ = 0;  ///< lists of steps from this one on may be in use by launches that
                                ///< are still to be submitted
  uint64_t unnamed_ = ~uint64_t{0};  ///< the next key of a sequence without one
  std::vector<int32_t> begins_;
  std::vector<PageUpdate> updates_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PAGE_TABLES_H_
