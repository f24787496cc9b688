#include "runtime/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_amount.h"
#include "base/stopwatch.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/profile.h"
#include "kernels/cuda/host_experts.h"
#include "runtime/drafter.h"
#include "runtime/memory_budget.h"
#include "tensor/dtype.h"

namespace chimere::runtime {
namespace {

/// Without --vram-budget, this many bytes are left to the driver and other processes.
constexpr int64_t kLeftFree = int64_t{256} << 20;
/// Work memory of large steps is at most this fraction (1/n) of the budget.
constexpr int64_t kMaxWorkShare = 16;
/// Rows with logits that the plan reserves memory for; a step with more allocates memory.
constexpr int64_t kPlannedLogitRows = 64;

/// Approximate GPU memory that the driver takes for a process.
constexpr int64_t kUsualContext = int64_t{512} << 20;

/// --cpu-experts: a number of layers; absent for auto. Errors: kInvalidArgument.
Result<std::optional<int>> cpu_experts(const Settings& settings) {
  const std::string& wanted = settings.get(settings::kCpuExperts);
  if (wanted == "auto") return std::optional<int>();
  int layers = 0;
  const char* const end = wanted.data() + wanted.size();
  const auto [read, error] = std::from_chars(wanted.data(), end, layers);
  if (error == std::errc() && read == end && layers >= 0) return std::optional<int>(layers);
  return invalid_argument("--cpu-experts is auto or a number of layers, not '" + wanted + "'");
}

std::string bytes_text(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

}  // namespace

kernels::cuda::Profile cuda_profile(const Settings& settings) {
  return *kernels::cuda::parse_profile(settings.get(settings::kCudaProfile));
}

Result<std::unique_ptr<kernels::cuda::Device>> open_cuda_device(const Settings& settings,
                                                                int number) {
  return kernels::cuda::open_cuda_device(number, cuda_profile(settings));
}

std::string gpu_name(const kernels::cuda::DeviceFacts& facts) {
  if (facts.profile == kernels::cuda::Profile::kNative) return facts.name;
  return fmt::format("{} (as {})", facts.name, kernels::cuda::profile_name(facts.profile));
}

std::string upload_text(const Upload& upload) {
  const auto bytes = static_cast<double>(upload.bytes);
  return fmt::format("{} of weights copied in {:.1f} s, {}/s", human_bytes(bytes), upload.seconds,
                     human_bytes(bytes / upload.seconds));
}

Result<int64_t> vram_budget(const Settings& settings, kernels::cuda::Device& gpu) {
  CHIMERE_TRY(const int64_t free, gpu.free_bytes());
  const std::string& budget = settings.get(settings::kVramBudget);
  if (budget.empty()) return free - kLeftFree;
  CHIMERE_TRY(const int64_t limit, parse_byte_amount(budget));
  // Memory that this process's CUDA context and other processes already use is not free.
  const int64_t used = gpu.facts().memory_bytes - free;
  return std::min(free, limit - used);
}

namespace {

/// Length in tokens of the sequence that the plan is made for.
int64_t planned_context(const LoadedModel& loaded) {
  return loaded.elastic ? std::min(loaded.context, loaded.min_tokens) : loaded.context;
}

/// Settings with which the model would fit beside a drafter of `drafter_bytes`; 0: none.
std::string suggestions_to_fit(const LoadedModel& loaded, const model::DevicePlan& plan,
                               int64_t allowed, int64_t drafter_bytes) {
  std::vector<std::string> suggestions;
  const int64_t missing = plan.total() - allowed;
  const int64_t kept_kv = plan.kv - missing;
  const int64_t context =
      plan.kv > 0
          ? static_cast<int64_t>(static_cast<double>(planned_context(loaded)) *
                                 static_cast<double>(kept_kv) / static_cast<double>(plan.kv)) /
                64 * 64
          : 0;
  if (context >= 64) suggestions.push_back(fmt::format("--ctx {}", context));
  model::DevicePlan fewer = plan;
  if (plan.host_expert_layers < static_cast<int>(plan.experts.size()) && fewer.fit(allowed)) {
    suggestions.push_back(fmt::format("--cpu-experts {}", fewer.host_expert_layers));
  }
  // q8_0 keys and q4_0 values take 13 bytes where two f16 take 32.
  if (plan.kv - plan.kv * 13 / 32 >= missing)
    suggestions.push_back("--cache-k q8_0 --cache-v q4_0");
  if (plan.drafts_total() >= missing) suggestions.emplace_back("--speculate ngram");
  model::DevicePlan alone = plan;
  if (drafter_bytes > 0 && alone.fit(allowed + drafter_bytes)) {
    suggestions.emplace_back("no --draft-model");
  }
  suggestions.push_back(
      fmt::format("--vram-budget {}M more than now, if the GPU has it", missing / 1'000'000 + 1));
  suggestions.push_back("--backend cpu");
  return fmt::format("{}", fmt::join(suggestions, ", or "));
}

std::string experts_text(const model::DevicePlan& plan) {
  if (plan.host_expert_layers == 0) return "";
  return fmt::format(" (the experts of {} layers, {}, stay in host memory)",
                     plan.host_expert_layers, bytes_text(plan.host_experts()));
}

Status check_fit(const LoadedModel& loaded, const model::DevicePlan& plan, int64_t allowed,
                 int64_t drafter_bytes) {
  if (plan.total() <= allowed) return {};
  return out_of_memory(fmt::format(
      "The model does not fit on the GPU: {} of weights{}, {} of keys and values for {} tokens, "
      "{} of states and {} of work memory add up to {}, but {} may be used{}. What would fit: {}.",
      bytes_text(plan.weights_on_gpu()), experts_text(plan), bytes_text(plan.kv),
      planned_context(loaded), bytes_text(plan.state_total() - plan.kv),
      bytes_text(plan.work_on_gpu()), bytes_text(plan.total()),
      bytes_text(std::max<int64_t>(0, allowed)),
      drafter_bytes > 0 ? " beside the drafter's " + bytes_text(drafter_bytes) : "",
      suggestions_to_fit(loaded, plan, allowed, drafter_bytes)));
}

/// Whether the settings require the drafter on the GPU.
bool requires_drafter(const Settings& settings) {
  return settings.get(settings::kSpeculate) == "dflash" &&
         settings.get(settings::kBackend) == "cuda";
}

/// Chooses the numbers of positions and states within the allowed bytes and --state-memory. The GPU
/// back end cannot release memory, so neither can use the other's share. Errors: kOutOfMemory.
Status choose_reserve(const Settings& settings, const LoadedModel& loaded,
                      const model::DevicePlan& plan, int64_t allowed,
                      model::ModelOptions& options) {
  const std::string& limit_text = settings.get(settings::kStateMemory);
  const int64_t least = plan.state_total();
  if (!limit_text.empty()) {
    CHIMERE_TRY(const int64_t limit, state_memory(settings));
    if (limit < least) {
      return out_of_memory(fmt::format(
          "--state-memory {} is less than the {} that {} tokens and {} recurrent states take on "
          "the GPU; allow more, or ask for fewer tokens (--ctx).",
          bytes_text(limit), bytes_text(least), loaded.min_tokens, plan.states));
    }
    allowed = std::min(allowed, plan.total() - least + limit);
  }
  const model::DevicePlan::Reserve reserve = plan.reserve(
      allowed, loaded.min_tokens, options.max_tokens, options.max_states, options.max_pending_rows);
  options.max_tokens = reserve.positions;
  options.max_states = reserve.states;
  options.max_pending_rows = reserve.pending_rows;
  options.max_state_bytes = 0;
  return {};
}

/// GPU memory that the model may come to use.
int64_t planned_bytes(const LoadedModel& loaded, const model::DevicePlan& plan,
                      model::Model& on_gpu) {
  const state::StateStore& states = on_gpu.states();
  const int64_t most =
      states.max_pages() * states.page_stride() + states.max_slots() * states.bytes_per_slot();
  const int64_t least = plan.kv + plan.state * plan.states;
  return loaded.elastic ? plan.total() - least + most : plan.total();
}

Status try_gpu(const Settings& settings, int step_rows, const Runtime& runtime,
               const LoadObserver& observer, LoadedModel& loaded, kernels::cuda::Device& gpu) {
  CHIMERE_TRY(const int64_t free, vram_budget(settings, gpu));
  const int64_t all = free - runtime.gpu_memory().taken();
  const int drafter_rows = step_rows > 0 ? step_rows : LoadedModel::kHostStepRows;
  const bool has_drafter = loaded.drafter != nullptr;
  int64_t drafter_bytes = has_drafter ? drafter_gpu_bytes(loaded, drafter_rows) : 0;
  CHIMERE_TRY(GpuPlan chosen, plan_for_gpu(settings, loaded, step_rows, all - drafter_bytes));
  std::string left_out;  // why the drafter is not used
  const bool too_large = chosen.plan.total() > all - drafter_bytes;
  if (has_drafter && too_large && !requires_drafter(settings)) {
    left_out =
        "the GPU is too small for it beside the model; allow more (--vram-budget), or ask for "
        "fewer tokens (--ctx).";
    drafter_bytes = 0;
    CHIMERE_TRY(chosen, plan_for_gpu(settings, loaded, step_rows, all));
  }
  const int64_t allowed = all - drafter_bytes;
  const model::DevicePlan& plan = chosen.plan;
  CHIMERE_CHECK_OK(check_fit(loaded, plan, allowed, drafter_bytes));
  gpu.account().set_limit(all);
  model::ModelOptions options = loaded.options;
  options.max_step_rows = chosen.step_rows;
  options.drafts = chosen.drafts;
  options.host_expert_layers = plan.host_expert_layers;
  if (loaded.elastic) {
    CHIMERE_CHECK_OK(choose_reserve(settings, loaded, plan, allowed, options));
  } else if (plan.state > 0) {
    options.max_pending_rows = plan.reserve_pending_rows(allowed, options.max_pending_rows);
    const int64_t rows = (options.max_pending_rows - plan.pending_rows) * plan.pending_row;
    const int64_t more = (allowed - plan.total() - rows) / plan.state;
    options.max_states = std::min(options.max_states, loaded.min_states + more);
  }
  const int64_t weights = plan.weights_on_gpu() - plan.staging();
  observer.say(fmt::format("Copying {} of weights{} to {}", bytes_text(weights), experts_text(plan),
                           gpu_name(gpu.facts())));
  if (loaded.model->has_drafts() && !chosen.drafts) {
    observer.warn(
        "The model's MTP head is not loaded: the GPU is too small for it and all experts; "
        "--speculate mtp loads it nevertheless.");
  }
  Upload upload;
  const Stopwatch watch;
  CHIMERE_TRY(auto ops, kernels::cuda::make_cuda_ops(
                            gpu, *loaded.pool,
                            {kernels::cuda::host_expert_buffers(plan.host_expert_layers),
                             plan.unpacked, loaded.cpu_isa},
                            [&](int64_t bytes) {
                              upload.bytes = bytes;
                              if (observer.upload)
                                observer.upload(std::min(bytes, weights), weights);
                            }));
  CHIMERE_TRY(auto on_gpu, model::load_model(*loaded.file, *ops, options));
  LoadedDrafter drafter_on_gpu;
  if (has_drafter && left_out.empty()) {
    auto moved = load_drafter_on_gpu(loaded, drafter_rows, gpu);
    if (moved.ok()) {
      drafter_on_gpu = *std::move(moved);
    } else if (moved.error().code != Error::Code::kOutOfMemory || requires_drafter(settings)) {
      return std::move(moved).error();
    } else {
      left_out = moved.error().message;
      drafter_bytes = 0;
    }
  }
  upload.seconds = watch.seconds();
  if (upload.seconds > kQuietUpload) observer.say(upload_text(upload));
  const int64_t planned = planned_bytes(loaded, plan, *on_gpu) + drafter_bytes;
  const int64_t promised = std::max<int64_t>(0, planned - gpu.account().used());
  CHIMERE_TRY(loaded.memory_share, runtime.gpu_memory().take(promised));
  loaded.upload = upload;
  if (!left_out.empty()) {
    observer.warn("The drafter is left out: " + left_out);
    loaded.drafter.reset();
  } else if (has_drafter) {
    loaded.drafter->model = std::move(drafter_on_gpu.model);
    loaded.drafter->ops = std::move(drafter_on_gpu.ops);
  }
  loaded.model = std::move(on_gpu);
  loaded.ops = std::move(ops);
  loaded.step_rows = options.max_step_rows;
  if (loaded.elastic) loaded.options = options;
  return {};
}

}  // namespace

Result<GpuPlan> plan_for_gpu(const Settings& settings, const LoadedModel& loaded, int step_rows,
                             int64_t allowed) {
  CHIMERE_TRY(const std::optional<int> layers, cpu_experts(settings));
  auto fitted = [&](model::DevicePlan plan) {
    if (!layers) {
      plan.fit(allowed);
    } else {
      plan.host_expert_layers = *layers;
    }
    return plan;
  };
  auto plan_with = [&](int rows, bool drafts) {
    model::DevicePlan plan = model::plan_for_device(*loaded.file, *loaded.model, loaded.min_tokens,
                                                    loaded.min_states, rows, kPlannedLogitRows);
    if (!drafts) plan = plan.without_drafts();
    return GpuPlan{fitted(std::move(plan)), rows, drafts};
  };
  const int min_rows = step_rows > 0 ? step_rows : LoadedModel::kHostStepRows;
  GpuPlan chosen = plan_with(min_rows, loaded.model->has_drafts());
  if (chosen.drafts && settings.get(settings::kSpeculate) == "auto") {
    GpuPlan without = plan_with(min_rows, false);
    const bool makes_it_fit = chosen.plan.total() > allowed && without.plan.total() <= allowed;
    if (makes_it_fit || without.plan.host_expert_layers < chosen.plan.host_expert_layers) {
      chosen = std::move(without);
    }
  }
  const auto most = static_cast<int>(chosen.plan.experts.size());
  if (layers && *layers > most) {
    return invalid_argument(fmt::format(
        "--cpu-experts {} is more than this model's {} layers with experts", *layers, most));
  }
  // Larger steps must not displace experts, exceed the budget, or need too much work memory.
  for (const int rows : LoadedModel::kGpuStepRows) {
    if (step_rows > 0) break;
    GpuPlan larger = plan_with(rows, chosen.drafts);
    if (larger.plan.total() <= allowed && larger.plan.work_on_gpu() <= allowed / kMaxWorkShare &&
        larger.plan.host_expert_layers <= chosen.plan.host_expert_layers) {
      chosen = std::move(larger);
      break;
    }
  }
  chosen.plan.unpack(allowed);
  return chosen;
}

Result<int64_t> vram_budget_without_gpu(const Settings& settings) {
  CHIMERE_TRY(const int64_t budget, parse_byte_amount(settings.get(settings::kVramBudget)));
  return budget - kUsualContext;
}

Result<std::unique_ptr<kernels::cuda::Device>> choose_gpu(const Settings& settings,
                                                          const Runtime& runtime) {
  CHIMERE_TRY([[maybe_unused]] const std::optional<int> layers, cpu_experts(settings));
  const std::string& budget = settings.get(settings::kVramBudget);
  if (!budget.empty()) {
    const auto checked = parse_byte_amount(budget);
    if (!checked.ok()) return checked.error();
  }
  const std::string& backend = settings.get(settings::kBackend);
  std::unique_ptr<kernels::cuda::Device> none;
  if (backend == "cpu") return none;
  auto gpu = open_cuda_device(settings, runtime.gpu());
  if (!gpu.ok() && backend != "cuda") return none;
  return gpu;
}

Status move_to_gpu(const Settings& settings, int step_rows, const Runtime& runtime,
                   const LoadObserver& observer, std::unique_ptr<kernels::cuda::Device> gpu,
                   LoadedModel& loaded) {
  Status moved = try_gpu(settings, step_rows, runtime, observer, loaded, *gpu);
  if (moved.ok()) {
    loaded.gpu = std::move(gpu);
  } else if (settings.get(settings::kBackend) == "cuda" ||
             moved.error().code != Error::Code::kOutOfMemory) {
    return moved;
  } else {
    observer.warn("Running on the CPU. " + moved.error().message);
  }
  return {};
}

}  // namespace chimere::runtime
