#include "quantize/input_collector.h"

#include <algorithm>
#include <string>

#include "runtime/prediction.h"

namespace chimere::quantize {

InputCollector::InputCollector(const gguf::Reader& file) {
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const int64_t matrices = tensor.dims.size() > 2 ? tensor.dims[2] : 1;
    sums_.push_back({&tensor, static_cast<int64_t>(tensor.bytes) / matrices, matrices > 1, {}, {}});
  }
  std::ranges::sort(sums_, {}, [](const Sums& s) { return s.tensor->data; });
}

void InputCollector::observe(const void* weights, ConstMatrixView x) {
  const auto after =
      std::ranges::upper_bound(sums_, weights, {}, [](const Sums& s) { return s.tensor->data; });
  if (after == sums_.begin()) return;
  Sums& sums = *std::prev(after);
  const int64_t offset =
      static_cast<const uint8_t*>(weights) - static_cast<const uint8_t*>(sums.tensor->data);
  const int64_t n_in = sums.tensor->dims[0];
  if (offset >= static_cast<int64_t>(sums.tensor->bytes) || x.cols != n_in) return;
  if (sums.rows.empty()) {
    const int64_t matrices = sums.experts ? sums.tensor->dims[2] : 1;
    sums.rows.resize(static_cast<size_t>(matrices));
    sums.squares.resize(static_cast<size_t>(matrices * n_in));
  }
  const int64_t matrix = sums.experts ? offset / sums.matrix_bytes : 0;
  sums.rows[static_cast<size_t>(matrix)] += x.rows;
  double* const squares = sums.squares.data() + matrix * n_in;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.row(r);
    for (int64_t i = 0; i < n_in; ++i) squares[i] += double{row[i]} * double{row[i]};
  }
}

ImportanceMatrix InputCollector::importance() const {
  ImportanceMatrix out;
  for (const Sums& sums : sums_) {
    if (sums.rows.empty()) continue;
    InputStatistics& one = out.tensors[sums.tensor->name];
    one.n_in = sums.tensor->dims[0];
    one.sums.assign(sums.squares.begin(), sums.squares.end());
    one.counts.assign(sums.rows.begin(), sums.rows.end());
  }
  return out;
}

Status run_windows(const runtime::LoadedModel& model, std::span<const int32_t> tokens,
                   int64_t window, const std::function<void(int64_t)>& progress) {
  const auto n = static_cast<int64_t>(tokens.size());
  if (n < window) {
    return invalid_argument("The text has " + std::to_string(n) +
                            " tokens, less than one window of " + std::to_string(window) +
                            "; give a longer text, or a smaller --window.");
  }
  const runtime::LoadedModel* one = &model;
  for (int64_t at = 0; at + window <= n; at += window) {
    const auto piece = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(window));
    // Logits of every row are computed, so that the output matrix has as many inputs as others.
    CHIMERE_CHECK_OK(runtime::for_each_logits(
        {&one, 1}, piece, window, 0,
        [](int64_t, std::span<const runtime::LogitsRow>) -> Status { return {}; }));
    progress(at + window);
  }
  return {};
}

}  // namespace chimere::quantize
