// A BatchView copied to a device, for tests.
#ifndef CHIMERE_KERNELS_CUDA_BATCH_TEST_DATA_H_
#define CHIMERE_KERNELS_CUDA_BATCH_TEST_DATA_H_

#include <vector>

#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/device_test_data.h"

namespace chimere::kernels::cuda::test {

/// Owns what a DeviceBatch points to. With `padding`, launches cover that many more sequences,
/// slices and rows than the batch has, as replayed graphs do.
class BatchOnDevice {
 public:
  BatchOnDevice(Device& device, const BatchView& batch, int padding = 0)
      : extent_(extent_of(batch)),
        slices_(device, padded(slices_of(batch), padding, SliceArgs{})),
        sequence_slices_(device, padded(batch.sequence_slices, padding,
                                        static_cast<int32_t>(batch.slices.size()))),
        row_sequence_(device, padded(batch.row_sequence, padding, 0)),
        row_position_(device, padded(batch.row_position, padding, -1)),
        row_visible_(device, padded(visible_of(batch), padding, 0)),
        read_slot_(device, padded(batch.read_slot, padding, 0)),
        write_slot_(device, padded(batch.write_slot, padding, -1)),
        page_table_(device, padded(batch.page_table, padding, 0)),
        page_begin_(device, padded(batch.page_begin, padding, 0)),
        fold_rows_(device, padded(batch.fold_rows, 1, 0)),
        fold_begin_(device, padded(batch.fold_begin, padding,
                                   static_cast<int32_t>(batch.fold_rows.size()))),
        fold_from_(device, padded(batch.fold_from, padding, -1)),
        keep_row_(device, padded(batch.keep_row, padding, -1)) {
    extent_.n_rows += padding;
    extent_.n_sequences += padding;
    extent_.n_slices += padding;
  }

  DeviceBatch view() const {
    return {{slices_.data(), sequence_slices_.data(), row_sequence_.data(), row_position_.data(),
             row_visible_.data(), read_slot_.data(), write_slot_.data(), page_table_.data(),
             page_begin_.data(), fold_rows_.data(), fold_begin_.data(), fold_from_.data(),
             keep_row_.data()},
            extent_};
  }

 private:
  static std::vector<SliceArgs> slices_of(const BatchView& batch) {
    std::vector<SliceArgs> all;
    for (const Slice& s : batch.slices) {
      all.push_back({s.sequence, s.row_begin, s.row_count, static_cast<int32_t>(s.row_class)});
    }
    return all;
  }

  static std::vector<int32_t> visible_of(const BatchView& batch) {
    std::vector<int32_t> all;
    for (int32_t r = 0; r < batch.n_rows; ++r) all.push_back(batch.visible(r));
    return all;
  }

  template <class Range, class T>
  static std::vector<T> padded(const Range& values, int padding, T with) {
    std::vector<T> all(values.begin(), values.end());
    all.insert(all.end(), static_cast<size_t>(padding), with);
    return all;
  }

  BatchExtent extent_;
  OnDevice<SliceArgs> slices_;
  OnDevice<int32_t> sequence_slices_;
  OnDevice<int32_t> row_sequence_;
  OnDevice<int32_t> row_position_;
  OnDevice<int32_t> row_visible_;
  OnDevice<int32_t> read_slot_;
  OnDevice<int32_t> write_slot_;
  OnDevice<int32_t> page_table_;
  OnDevice<int32_t> page_begin_;
  OnDevice<int32_t> fold_rows_;
  OnDevice<int32_t> fold_begin_;
  OnDevice<int32_t> fold_from_;
  OnDevice<int32_t> keep_row_;
};

}  // namespace chimere::kernels::cuda::test

#endif  // CHIMERE_KERNELS_CUDA_BATCH_TEST_DATA_H_
