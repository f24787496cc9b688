#include "engine/prefill_budget.h"

#include <algorithm>

#include "kernels/api.h"

namespace chimere::engine {
namespace {

/// Moving average that follows a change of load within about ten steps.
void average(double& mean, double value) { mean = mean == 0 ? value : mean + 0.2 * (value - mean); }

}  // namespace

int64_t PrefillBudget::prompt_rows(int64_t generations, int64_t most) const {
  if (generations == 0) return most;
  const double rows = prompt_row_ > 0 ? itl_budget() / prompt_row_ : 0;
  const auto least = static_cast<double>(kernels::kMaxChunkRows);
  return std::min(most, static_cast<int64_t>(std::max(rows, least)));
}

bool PrefillBudget::too_slow(int64_t generations, int64_t prompt_rows) const {
  if (generations == 0 || prompt_rows == 0) return false;
  return prompt_row_ == 0 || static_cast<double>(prompt_rows) * prompt_row_ > itl_budget();
}

void PrefillBudget::record(int64_t generations, int64_t prompt_rows, double seconds) {
  if (prompt_rows == 0) {
    average(decode_step_, seconds);
  } else {
    const double decoding = generations > 0 ? decode_step_ : 0;
    average(prompt_row_, std::max(0.0, seconds - decoding) / static_cast<double>(prompt_rows));
  }
}

}  // namespace chimere::engine
