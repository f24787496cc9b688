#include "runtime/drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/byte_amount.h"
#include "engine/speculation/speculation.h"
#include "kernels/cuda/cuda_ops.h"
#include "runtime/loaded_model.h"
#include "runtime/model_path.h"

namespace chimere::runtime {
namespace {

/// Pages that a sequence needs beyond its rows: of its block, and the one that is being filled.
constexpr int64_t kMorePages = 2;
/// On the CPU the states take at most this fraction (1/n) of the target's limit.
constexpr int64_t kStateShare = 8;

/// Whether this setting uses the drafter of --draft-model.
bool uses_drafter(const Settings& settings) {
  const std::string& mode = settings.get(settings::kSpeculate);
  return mode == "auto" || mode == "dflash";
}

/// Names of the drafters whose shape fits the target, separated by commas.
std::string fitting_drafters(const Settings& settings, const gguf::Reader& target) {
  std::string out;
  for (const NamedModel& named : named_models(settings)) {
    const auto file = gguf::Reader::open(named.path);
    if (!file.ok() || !model::is_block_drafter(**file)) continue;
    if (!model::check_block_drafter(**file, target).ok()) continue;
    out += (out.empty() ? "" : ", ") + named.name;
  }
  return out;
}

/// The error of --speculate dflash without --draft-model.
Error no_drafter(const Settings& settings, const gguf::Reader& target) {
  const std::string fitting = fitting_drafters(settings, target);
  return invalid_argument(
      "--speculate dflash needs a drafter that was trained for this model: --draft-model FILE. " +
      (fitting.empty()
           ? "None of those that `chimere list` shows fits it."
           : "Of those that `chimere list` shows, these have its shape: " + fitting + "."));
}

/// Capacity for `tokens` positions of the target's sequences.
model::ModelOptions drafter_options(const LoadedModel& target, int64_t tokens, int step_rows) {
  model::ModelOptions options;
  options.max_states = target.options.max_states;
  options.max_tokens = tokens + kMorePages * kernels::kKvPageTokens * options.max_states;
  options.max_window_states = options.max_states;
  options.max_step_rows = step_rows;
  options.max_pending_rows = step_rows;
  return options;
}

/// The target's least capacity: what does not fit goes without drafts.
model::ModelOptions gpu_options(const LoadedModel& target, int step_rows) {
  model::ModelOptions options =
      drafter_options(target, std::min(target.options.max_tokens, target.min_tokens), step_rows);
  options.max_window_states = std::min(options.max_states, target.min_states);
  return options;
}

}  // namespace

Result<std::unique_ptr<LoadedDrafter>> load_drafter(const Settings& settings,
                                                    const LoadedModel& target,
                                                    const LoadObserver& observer) {
  std::unique_ptr<LoadedDrafter> none;
  const std::string& name = settings.get(settings::kDraftModel);
  const bool asked = settings.get(settings::kSpeculate) == "dflash";
  const bool named = !name.empty() && name != "none";
  if (asked && !named) return no_drafter(settings, *target.file);
  if (!named) return none;
  if (!uses_drafter(settings)) {
    observer.warn("--draft-model changes nothing with --speculate " +
                  settings.get(settings::kSpeculate) + ".");
    return none;
  }
  const auto of_flag = [](Error error) {
    error.message = "--draft-model: " + error.message;
    return error;
  };
  const auto found = find_drafter(name, settings);
  if (!found.ok()) return of_flag(found.error());
  auto drafter = std::make_unique<LoadedDrafter>();
  auto file = gguf::Reader::open(found->path);
  if (!file.ok()) return of_flag(file.error());
  drafter->file = *std::move(file);
  drafter->ops = kernels::make_cpu_ops(*target.pool, target.cpu_isa);
  model::ModelOptions options =
      drafter_options(target, target.options.max_tokens, target.step_rows);
  options.max_state_bytes = target.options.max_state_bytes / kStateShare;
  auto model = model::load_block_drafter(*drafter->file, *target.file, *drafter->ops, options);
  if (!model.ok() && model.error().code == Error::Code::kUnsupported && !asked) {
    observer.warn("The drafter is left out: " + model.error().message + ".");
    return none;
  }
  if (!model.ok()) return of_flag(model.error());
  drafter->model = *std::move(model);
  return drafter;
}

int64_t drafter_state_bytes(const LoadedDrafter& drafter, int64_t slots) {
  const state::StateStore& states = drafter.model->states();
  const int64_t all = states.max_pages() * states.page_stride() +
                      std::min(slots, states.max_slots()) * states.bytes_per_slot();
  return states.max_bytes() > 0 ? std::min(all, states.max_bytes()) : all;
}

DrafterFacts drafter_facts(const LoadedDrafter& drafter) {
  return {.name = std::filesystem::path(drafter.file->path()).stem().string(),
          .bytes = static_cast<int64_t>(drafter.file->file_bytes()),
          .block_size = drafter.model->block_draft()->block_size};
}

std::string drafter_text(const LoadedDrafter& drafter, const Settings& settings,
                         const std::string& device) {
  const DrafterFacts facts = drafter_facts(drafter);
  const bool when_faster = settings.get(settings::kSpeculate) == "auto";
  return fmt::format("{} {}: {}, blocks of {} tokens, on {}{}",
                     when_faster ? "Drafter" : "Drafting with", facts.name,
                     human_bytes(static_cast<double>(facts.bytes)), facts.block_size, device,
                     when_faster ? "; --speculate auto uses it where that is faster" : "");
}

int64_t drafter_gpu_bytes(const LoadedModel& target, int step_rows) {
  const model::Model& model = *target.drafter->model;
  const model::ModelOptions options = gpu_options(target, step_rows);
  const state::StateStore& states = target.drafter->model->states();
  return model.active_weight_bytes() + options.max_tokens * states.bytes_per_token() +
         options.max_window_states * states.bytes_per_slot() +
         model.step_bytes(step_rows, step_rows) + model.gpu_scratch_bytes(step_rows);
}

Result<LoadedDrafter> load_drafter_on_gpu(const LoadedModel& target, int step_rows,
                                          kernels::cuda::Device& gpu) {
  LoadedDrafter out;
  CHIMERE_TRY(out.ops,
              kernels::cuda::make_cuda_ops(gpu, *target.pool, {.host_isa = target.cpu_isa}));
  CHIMERE_TRY(out.model, model::load_block_drafter(*target.drafter->file, *target.file, *out.ops,
                                                   gpu_options(target, step_rows)));
  return out;
}

}  // namespace chimere::runtime
