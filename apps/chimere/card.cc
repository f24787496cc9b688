#include "card.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_amount.h"
#include "command.h"
#include "kernels/cuda/cuda_ops.h"
#include "tensor/dtype.h"

namespace chimere::app {
namespace {

/// Left to the driver and others where no budget is named.
constexpr int64_t kLeftFree = int64_t{256} << 20;
/// Work memory of large steps is at most one part in so many.
constexpr int64_t kMostWorkShare = 16;
/// Rows of a step whose logits are wanted: more take memory when they come.
constexpr int64_t kUsualWanted = 64;

std::string bytes_text(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

/// Bytes that this process may take of the card.
Result<int64_t> allowance(const Settings& settings, kernels::cuda::Device& card) {
  CHIMERE_TRY(const int64_t free, card.free_bytes());
  const std::string& budget = settings.get(settings::kVramBudget);
  if (budget.empty()) return free - kLeftFree;
  CHIMERE_TRY(const int64_t limit, parse_byte_amount(budget));
  // What is used already, by the context of this process and by others, counts.
  const int64_t used = card.facts().memory_bytes - free;
  return std::min(free, limit - used);
}

/// Settings with which the model would fit.
std::string ways_out(const LoadedModel& loaded, const model::DevicePlan& plan, int64_t allowed) {
  std::vector<std::string> ways;
  const int64_t missing = plan.total() - allowed;
  const int64_t kept_kv = plan.kv - missing;
  const int64_t context = plan.kv > 0 ? static_cast<int64_t>(static_cast<double>(loaded.context) *
                                                             static_cast<double>(kept_kv) /
                                                             static_cast<double>(plan.kv)) /
                                            64 * 64
                                      : 0;
  if (context >= 64) ways.push_back(fmt::format("--ctx {}", context));
  // q8_0 keys and q4_0 values take 13 bytes where two f16 take 32.
  if (plan.kv - plan.kv * 13 / 32 >= missing) ways.push_back("--cache-k q8_0 --cache-v q4_0");
  ways.push_back(fmt::format("--vram-budget {}M more than now, where the card has it",
                             missing / 1'000'000 + 1));
  ways.push_back("--backend cpu");
  return fmt::format("{}", fmt::join(ways, ", or "));
}

Status check_fit(const LoadedModel& loaded, const model::DevicePlan& plan, int64_t allowed) {
  if (plan.total() <= allowed) return {};
  return out_of_memory(fmt::format(
      "The model does not fit on the card: {} of weights, {} of keys and values for {} tokens, {} "
      "of states and {} to work in are {}, but {} may be used. What would fit: {}.",
      bytes_text(plan.weights), bytes_text(plan.kv), loaded.context,
      bytes_text(plan.state * plan.states), bytes_text(plan.work), bytes_text(plan.total()),
      bytes_text(std::max<int64_t>(0, allowed)), ways_out(loaded, plan, allowed)));
}

Status try_card(const Settings& settings, model::ModelOptions options, int64_t least_states,
                int step_rows, LoadedModel& loaded, kernels::cuda::Device& card) {
  CHIMERE_TRY(const int64_t allowed, allowance(settings, card));
  model::DevicePlan plan;
  if (step_rows > 0) {
    options.max_step_rows = step_rows;
    plan = plan_for_card(loaded, options, least_states);
  } else {
    for (const int rows : LoadedModel::kCardStepRows) {
      options.max_step_rows = rows;
      plan = plan_for_card(loaded, options, least_states);
      if (plan.total() <= allowed && plan.work <= allowed / kMostWorkShare) break;
    }
  }
  CHIMERE_CHECK_OK(check_fit(loaded, plan, allowed));
  card.account().set_limit(allowed);
  if (plan.state > 0) {
    const int64_t more = (allowed - plan.total()) / plan.state;
    options.max_states = std::min(options.max_states, least_states + more);
  }
  std::cerr << fmt::format("Copying {} of weights to {}\n", bytes_text(plan.weights),
                           card.facts().name);
  CHIMERE_TRY(auto ops, kernels::cuda::make_cuda_ops(card, *loaded.pool));
  CHIMERE_TRY(auto on_card, model::load_model(*loaded.file, *ops, options));
  loaded.model = std::move(on_card);
  loaded.ops = std::move(ops);
  loaded.step_rows = options.max_step_rows;
  return {};
}

}  // namespace

model::DevicePlan plan_for_card(const LoadedModel& loaded, const model::ModelOptions& options,
                                int64_t least_states) {
  return model::plan_for_device(*loaded.file, *loaded.model, options.max_tokens, least_states,
                                options.max_step_rows, kUsualWanted);
}

Status move_to_card(const Settings& settings, model::ModelOptions options, int64_t least_states,
                    int step_rows, LoadedModel& loaded) {
  const std::string& backend = settings.get(settings::kBackend);
  const std::string& budget = settings.get(settings::kVramBudget);
  if (!budget.empty()) {
    const auto checked = parse_byte_amount(budget);
    if (!checked.ok()) return checked.error();
  }
  if (backend == "cpu") return {};
  auto card = kernels::cuda::open_card(0);
  if (!card.ok()) return backend == "cuda" ? Status(card.error()) : Status();
  Status moved = try_card(settings, options, least_states, step_rows, loaded, **card);
  if (moved.ok()) {
    loaded.card = *std::move(card);
  } else if (backend == "cuda" || moved.error().code != Error::Code::kOutOfMemory) {
    return moved;
  } else {
    std::cerr << "Running on the CPU. " << moved.error().message << '\n';
  }
  return {};
}

}  // namespace chimere::app
