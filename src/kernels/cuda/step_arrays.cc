#include "kernels/cuda/step_arrays.h"

#include <algorithm>
#include <utility>

namespace chimere::kernels::cuda {
namespace {

/// Address space for the arrays of any step; enough for new page lists of 100 million positions.
constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr size_t kNumbersOfUpdate = sizeof(PageUpdate) / sizeof(int32_t);
constexpr size_t kNumbersOfUse = sizeof(AdapterUse) / sizeof(int32_t);
constexpr size_t kNumbersOfChoice = sizeof(TokenChoice) / sizeof(int32_t);
/// Numbers per row: row_sequence, row_position, row_visible, write_slot, keep_row, wanted_ids,
/// async_from, two lists of classes (four fields), slices (four each).
constexpr size_t kNumbersOfRow = 7 + 4 + 4;
/// Numbers per sequence: sequence_slices, read_slot, fold_begin, fold_from.
constexpr size_t kNumbersOfSequence = 4;
constexpr size_t kFields = 22;  ///< upper bound of the fields that are padded to the alignment
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
  decode_rows_.clear();
  prefill_rows_.clear();
  for (size_t r = 0; r < classes.size(); ++r) {
    (classes[r] == RowClass::kDecode ? decode_rows_ : prefill_rows_)
        .push_back(static_cast<int32_t>(r));
  }
  const int32_t* const decode_ids = add(decode_rows_, capacity);
  const int32_t* const prefill_ids = add(prefill_rows_, capacity);
  const auto n_decode = static_cast<int32_t>(decode_rows_.size());
  const auto n_prefill = static_cast<int32_t>(prefill_rows_.size());
  RowClasses rows;
  rows.decode = {n_prefill == 0 ? nullptr : decode_ids, n_decode};
  rows.prefill = {n_decode == 0 ? nullptr : prefill_ids, n_prefill};
  return rows;
}

void StepArrays::find_classes(const StepInputs& step) {
  classes_.resize(static_cast<size_t>(step.batch.n_rows));
  for (const Slice& s : step.batch.slices) {
    std::fill_n(classes_.begin() + s.row_begin, s.row_count, s.row_class);
  }
  wanted_classes_.clear();
  for (const int32_t row : step.wanted_rows) {
    wanted_classes_.push_back(classes_[static_cast<size_t>(row)]);
  }
}

void StepArrays::add_folds(const BatchView& batch, size_t capacity) {
  if (batch_.extent.folds == 0) return;
  batch_.args.fold_from = add(batch.fold_from, capacity);
  // Launches do not depend on the number of rows to fold: these are numbered from the start of all
  // arrays.
  const size_t first = used_ + rounded(capacity + 1);
  fold_begin_.assign(batch.fold_begin.begin(), batch.fold_begin.end());
  for (int32_t& at : fold_begin_) at += static_cast<int32_t>(first);
  batch_.args.fold_begin = add(fold_begin_, capacity + 1);
  batch_.args.fold_rows = reinterpret_cast<const int32_t*>(range_->data());
  add(batch.fold_rows, batch.fold_rows.size());
}

Status StepArrays::upload(const StepInputs& step, PageTables& pages, bool interleaved) {
  const BatchView& b = step.batch;
  // Small steps get the same addresses whatever their size.
  const size_t rows = static_cast<size_t>(
      std::max(b.n_rows, kMaxGraphRows));  // an upper bound of the sequences too
  const size_t wanted = std::max(rows, step.wanted_rows.size());
  const size_t choice_rows = step.choices.empty() ? 0 : wanted;
  // Captured steps have the same addresses however many adapters their rows have.
  const size_t uses = step.adapters.empty() ? 0 : rows * kMaxRowAdapters;
  const size_t page_groups = b.page_begin.size() / static_cast<size_t>(std::max(b.n_sequences, 1));
  turn_ = 1 - turn_;
  Status ready = pages.prepare(b, interleaved);
  if (ready.ok()) {
    ready = make_room(kNumbersOfRow * wanted + kNumbersOfSequence * (rows + 1) +
                      page_groups * rows + kNumbersOfChoice * choice_rows + step.selected.size() +
                      step.masks.size() + kNumbersOfUpdate * pages.updates().size() +
                      b.fold_rows.size() + (kNumbersOfUse + 1) * uses + kFields * kAlign);
  }
  if (!ready.ok()) {
    pages.forget_step();
    return ready;
  }
  find_classes(step);
  used_ = 0;
  static_assert(sizeof(Slice) == sizeof(SliceArgs) && sizeof(Slice) == 4 * sizeof(int32_t));
  static_assert(sizeof(TokenChoice) % sizeof(int32_t) == 0 && alignof(TokenChoice) <= 16);
  const std::span<const int32_t> slices = {reinterpret_cast<const int32_t*>(b.slices.data()),
                                           4 * b.slices.size()};
  static_assert(sizeof(PageUpdate) % sizeof(int32_t) == 0);
  const std::span<const int32_t> updates = {
      reinterpret_cast<const int32_t*>(pages.updates().data()),
      kNumbersOfUpdate * pages.updates().size()};

  batch_.args.slices = reinterpret_cast<const SliceArgs*>(add(slices, 4 * rows));
  batch_.args.sequence_slices = add(b.sequence_slices, rows + 1);
  batch_.args.row_sequence = add(b.row_sequence, rows);
  batch_.args.row_position = add(b.row_position, rows);
  visible_.clear();
  for (int32_t r = 0; r < b.n_rows; ++r) visible_.push_back(b.visible(r));
  batch_.args.row_visible = add(visible_, rows);
  batch_.args.read_slot = add(b.read_slot, rows);
  batch_.args.write_slot = add(b.write_slot, rows);
  batch_.args.page_begin = add(pages.begins(), page_groups * rows);
  batch_.args.page_table = pages.data();
  all_ = add_classes(classes_, rows);
  wanted_ids_ = add(step.wanted_rows, wanted);
  wanted_ = add_classes(wanted_classes_, wanted);
  // The number of selected ids and whether there are masks are parts of the GraphKey; captured
  // launches read no page updates.
  selected_ids_ = add(step.selected, step.selected.size());
  static_assert(sizeof(uint32_t) == sizeof(int32_t));
  masks_ = reinterpret_cast<const uint32_t*>(add(
      {reinterpret_cast<const int32_t*>(step.masks.data()), step.masks.size()}, step.masks.size()));
  async_from_ = add(step.async_from, step.async_from.empty() ? 0 : rows);
  choices_ = reinterpret_cast<const TokenChoice*>(
      add({reinterpret_cast<const int32_t*>(step.choices.data()),
           kNumbersOfChoice * step.choices.size()},
          kNumbersOfChoice * choice_rows));
  adapters_ = {};
  if (uses > 0) {
    adapters_.begin = add(step.adapters.begin, rows + 1);
    adapters_.uses = reinterpret_cast<const AdapterUse*>(
        add({reinterpret_cast<const int32_t*>(step.adapters.uses.data()),
             kNumbersOfUse * step.adapters.uses.size()},
            kNumbersOfUse * uses));
    for (int64_t r = 0; r < b.n_rows; ++r) {
      adapters_.most = std::max(adapters_.most, static_cast<int32_t>(step.adapters.of(r).size()));
    }
    if (b.n_rows <= kMaxGraphRows) adapters_.most = kMaxRowAdapters;
  }
  batch_.extent = extent_of(b);
  batch_.args.keep_row = batch_.extent.keeps != 0 ? add(b.keep_row, rows) : nullptr;
  add_folds(b, rows);
  const auto* const page_updates =
      reinterpret_cast<const PageUpdate*>(add(updates, updates.size()));
  Stream& stream = device_->stream();
  stream.copy(range_->data(), stagings_[turn_].memory->data(), used_ * sizeof(int32_t));
  pages.apply(stream, page_updates);
  return {};
}

}  // namespace chimere::kernels::cuda
