#include "kernels/cuda/step_arrays.h"

#include <algorithm>
#include <utility>

namespace chimere::kernels::cuda {
namespace {

/// Address space for the arrays of any step; enough for a page table of 200 million positions.
constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr size_t kNumbersOfChoice = sizeof(TokenChoice) / sizeof(int32_t);
/// Numbers per row: row_sequence, row_position, row_visible, write_slot, wanted_ids, async_from,
/// two lists of classes (four fields), slices (four each).
constexpr size_t kNumbersOfRow = 6 + 4 + 4;
/// Numbers per sequence: sequence_slices, read_slot, page_begin.
constexpr size_t kNumbersOfSequence = 3;
constexpr size_t kFields = 16;  ///< upper bound of the fields that are padded to the alignment
constexpr size_t kAlign = 4;    ///< in numbers: slices are read 16 bytes at a time

size_t rounded(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

}  // namespace

Result<StepArrays> StepArrays::create(Device& device) {
  CHIMERE_TRY(std::unique_ptr<MemoryRange> range, device.reserve(kMaxBytes));
  return StepArrays(device, std::move(range));
}

Status StepArrays::make_room(size_t count) {
  const size_t bytes = count * sizeof(int32_t);
  CHIMERE_CHECK_OK(range_->commit(bytes));
  Staging& staging = stagings_[turn_];
  if (count <= staging.count) return {};
  CHIMERE_TRY(staging.memory, device_->pinned(bytes));
  staging.count = count;
  return {};
}

const int32_t* StepArrays::add(std::span<const int32_t> values, size_t capacity) {
  const size_t at = used_;
  std::ranges::copy(values, reinterpret_cast<int32_t*>(stagings_[turn_].memory->data()) + at);
  used_ += rounded(capacity);
  return reinterpret_cast<const int32_t*>(range_->data()) + at;
}

RowClasses StepArrays::add_classes(std::span<const RowClass> classes, size_t capacity) {
  std::vector<int32_t> decode;
  std::vector<int32_t> prefill;
  for (size_t r = 0; r < classes.size(); ++r) {
    (classes[r] == RowClass::kDecode ? decode : prefill).push_back(static_cast<int32_t>(r));
  }
  const int32_t* const decode_ids = add(decode, capacity);
  const int32_t* const prefill_ids = add(prefill, capacity);
  RowClasses rows;
  rows.decode = {prefill.empty() ? nullptr : decode_ids, static_cast<int32_t>(decode.size())};
  rows.prefill = {decode.empty() ? nullptr : prefill_ids, static_cast<int32_t>(prefill.size())};
  return rows;
}

Status StepArrays::upload(const StepInputs& step) {
  const BatchView& b = step.batch;
  // Small steps get the same addresses whatever their size.
  const size_t rows = static_cast<size_t>(
      std::max(b.n_rows, kMaxGraphRows));  // an upper bound of the sequences too
  const size_t wanted = std::max(rows, step.wanted_rows.size());
  const size_t choice_rows = step.choices.empty() ? 0 : wanted;
  turn_ = 1 - turn_;
  CHIMERE_CHECK_OK(make_room(kNumbersOfRow * wanted + kNumbersOfSequence * (rows + 1) +
                             kNumbersOfChoice * choice_rows + step.selected.size() +
                             b.page_table.size() + kFields * kAlign));
  used_ = 0;
  static_assert(sizeof(Slice) == sizeof(SliceArgs) && sizeof(Slice) == 4 * sizeof(int32_t));
  static_assert(sizeof(TokenChoice) % sizeof(int32_t) == 0 && alignof(TokenChoice) <= 16);
  const std::span<const int32_t> slices = {reinterpret_cast<const int32_t*>(b.slices.data()),
                                           4 * b.slices.size()};
  std::vector<RowClass> classes(static_cast<size_t>(b.n_rows));
  for (const Slice& s : b.slices)
    std::fill_n(classes.begin() + s.row_begin, s.row_count, s.row_class);
  std::vector<RowClass> wanted_classes;
  for (const int32_t row : step.wanted_rows) {
    wanted_classes.push_back(classes[static_cast<size_t>(row)]);
  }

  batch_.args.slices = reinterpret_cast<const SliceArgs*>(add(slices, 4 * rows));
  batch_.args.sequence_slices = add(b.sequence_slices, rows + 1);
  batch_.args.row_sequence = add(b.row_sequence, rows);
  batch_.args.row_position = add(b.row_position, rows);
  std::vector<int32_t> visible;
  for (int32_t r = 0; r < b.n_rows; ++r) visible.push_back(b.visible(r));
  batch_.args.row_visible = add(visible, rows);
  batch_.args.read_slot = add(b.read_slot, rows);
  batch_.args.write_slot = add(b.write_slot, rows);
  batch_.args.page_begin = add(b.page_begin, rows);
  all_ = add_classes(classes, rows);
  wanted_ids_ = add(step.wanted_rows, wanted);
  wanted_ = add_classes(wanted_classes, wanted);
  // The number of selected ids is part of the GraphKey; launches do not depend on the number of
  // pages.
  selected_ids_ = add(step.selected, step.selected.size());
  async_from_ = add(step.async_from, step.async_from.empty() ? 0 : rows);
  choices_ = reinterpret_cast<const TokenChoice*>(
      add({reinterpret_cast<const int32_t*>(step.choices.data()),
           kNumbersOfChoice * step.choices.size()},
          kNumbersOfChoice * choice_rows));
  batch_.args.page_table = add(b.page_table, b.page_table.size());
  batch_.extent = extent_of(b);
  device_->stream().copy(range_->data(), stagings_[turn_].memory->data(), used_ * sizeof(int32_t));
  return {};
}

}  // namespace chimere::kernels::cuda
