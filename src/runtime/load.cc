#include "runtime/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/byte_amount.h"
#include "base/system.h"
#include "engine/speculation/drafter.h"
#include "runtime/gpu.h"
#include "runtime/memory_budget.h"
#include "tensor/dtype.h"

namespace chimere::runtime {
namespace {

/// Bytes of host memory that no model of the runtime was promised; 0: unknown.
int64_t free_memory(const Runtime& runtime) {
  return std::min(available_memory(), std::max<int64_t>(1, runtime.host_memory().left()));
}

/// What the states of a model on the CPU may take.
int64_t promised_bytes(const LoadedModel& loaded) {
  const state::StateStore& states = loaded.model->states();
  const int64_t all =
      states.max_pages() * states.page_stride() + states.max_slots() * states.slot_stride();
  if (loaded.elastic) return states.max_bytes() > 0 ? std::min(all, states.max_bytes()) : all;
  return states.max_pages() * states.page_stride() +
         std::min(loaded.min_states, states.max_slots()) * states.slot_stride();
}

/// Rejects a context that memory cannot hold: the process would be killed once the context fills.
Status check_memory(const LoadedModel& loaded, int64_t contexts, const Runtime& runtime) {
  const state::StateStore& states = loaded.model->states();
  const int64_t available = free_memory(runtime);
  const int64_t per_token = std::max<int64_t>(1, states.bytes_per_token());
  const int64_t fits =
      std::max<int64_t>(0, available / contexts - states.bytes_per_slot()) / per_token;
  if (available == 0 || loaded.context <= fits) return {};  // 0: unknown
  return out_of_memory(fmt::format(
      "A context of {} tokens takes {} of keys and values{}, and {} of memory are free; ask for at "
      "most {} tokens (--ctx), or for smaller types (--cache-k, --cache-v).",
      loaded.context, human_bytes(static_cast<double>(loaded.context * per_token)),
      contexts > 1 ? fmt::format(" in each of {} conversations", contexts) : "",
      human_bytes(static_cast<double>(available)), fits));
}

/// The same for a KV pool of this many tokens.
Status check_pool_memory(const LoadedModel& loaded, int64_t sequences, const Runtime& runtime) {
  const state::StateStore& states = loaded.model->states();
  const int64_t available = free_memory(runtime);
  const int64_t kv = loaded.options.max_tokens * states.bytes_per_token();
  const int64_t left = available - sequences * states.bytes_per_slot();
  if (available == 0 || kv <= left) return {};  // 0: unknown
  return out_of_memory(fmt::format(
      "{} tokens take {} of keys and values, and {} of memory are free; ask for fewer, or for "
      "smaller types (--cache-k, --cache-v).",
      loaded.options.max_tokens, human_bytes(static_cast<double>(kv)),
      human_bytes(static_cast<double>(available))));
}

/// Limit in bytes for states on the host: --state-memory, or three quarters of the memory that the
/// weights and the prefix cache leave; 0: free memory is unknown. Errors: kInvalidArgument.
Result<int64_t> host_state_bytes(const Settings& settings, const gguf::Reader& file,
                                 const Runtime& runtime) {
  if (!settings.get(settings::kStateMemory).empty()) return state_memory(settings);
  const int64_t available = free_memory(runtime);
  const int64_t left = available - static_cast<int64_t>(file.file_bytes()) -
                       (settings.get(settings::kCacheMemory) << 20);
  // Weights that do not fit are paged in repeatedly; states that do not fit kill the process.
  return std::max(left / 4 * 3, available / 8);
}

/// The longest context that one sequence can have within the memory limit.
Status fit_context(int64_t wanted, LoadedModel& loaded) {
  const state::StateStore& states = loaded.model->states();
  if (states.bytes_per_token() == 0) return {};
  constexpr int64_t kSlots = 2;
  const int64_t fits = states.free_pages(kSlots) * states.spec().page_tokens;
  const int64_t needed = wanted > 0 ? wanted : kernels::kKvPageTokens;
  if (needed > fits) {
    const auto bytes = [](int64_t n) { return human_bytes(static_cast<double>(n)); };
    const std::string shorter =
        fits > 0 ? fmt::format(", ask for at most {} tokens (--ctx)", fits) : "";
    return out_of_memory(fmt::format(
        "A context of {} tokens takes {} of keys, values and recurrent states, and {} may be used; "
        "allow more (--state-memory){}, or use smaller types (--cache-k, --cache-v).",
        needed, bytes(needed * states.bytes_per_token() + kSlots * states.bytes_per_slot()),
        bytes(states.max_bytes()), shorter));
  }
  loaded.context = std::min(loaded.context, fits);
  return {};
}

}  // namespace

Result<LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                         const MemoryRequest& request, const Runtime& runtime,
                         const LoadObserver& observer) {
  LoadedModel out;
  out.file = std::move(file);
  CHIMERE_TRY(const std::string architecture, out.file->get_string("general.architecture"));
  CHIMERE_CHECK_OK(model::check_architecture(*out.file));
  CHIMERE_TRY(out.tokenizer, load_tokenizer(*out.file));
  CHIMERE_TRY(const int64_t trained, out.file->get_int(architecture + ".context_length"));
  const int64_t wanted = settings.get(settings::kContext);
  if (wanted > trained) {
    return invalid_argument(
        fmt::format("--ctx {} is more than the {} tokens that this model was trained for; ask for "
                    "at most that.",
                    wanted, trained));
  }
  out.context = wanted > 0 ? wanted : std::min(trained, request.default_context);
  out.trained_context = trained;
  out.elastic = request.elastic;

  out.pool = runtime.pool();
  out.ops = kernels::make_cpu_ops(*out.pool);
  model::ModelOptions& options = out.options;
  // A checkpoint shares all pages with its sequence except the one that is still being written.
  const int64_t pages =
      (out.context + kernels::kKvPageTokens - 1) / kernels::kKvPageTokens + request.checkpoints;
  const bool pool = wanted == 0 && request.default_tokens > 0;
  options.max_tokens =
      pool ? request.default_tokens : pages * request.contexts * kernels::kKvPageTokens;
  if (request.elastic) {
    constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max() / kernels::kKvPageTokens *
                                   int64_t{kernels::kKvPageTokens};
    options.max_tokens = std::min(options.max_tokens, kMaxTokens);
    CHIMERE_TRY(options.max_state_bytes, host_state_bytes(settings, *out.file, runtime));
  }
  options.max_states =
      std::max(options.max_states,
               2 * (std::max(request.contexts, request.sequences) + request.checkpoints));
  out.step_rows = request.step_rows > 0 ? request.step_rows : LoadedModel::kHostStepRows;
  options.max_step_rows = out.step_rows;
  options.cache_k = *parse_dtype(settings.get(settings::kCacheK));
  options.cache_v = *parse_dtype(settings.get(settings::kCacheV));
  options.expert_top_p = static_cast<float>(settings.get(settings::kExpertTopP));
  const auto speculation = engine::Speculation::named(settings.get(settings::kSpeculate));
  options.drafts = speculation && engine::reads_draft_kv(*speculation);
  CHIMERE_TRY(out.model, model::load_model(*out.file, *out.ops, options));
  out.min_tokens = options.max_tokens;
  out.min_states = request.contexts + request.checkpoints + 1;
  if (request.elastic) {
    // One more page each for a few checkpoints inside a sequence's newest page.
    constexpr int64_t kMorePages = 4;
    constexpr int64_t kMoreStates = 4;
    constexpr int64_t kMinContext = 32768;
    const int64_t least = wanted > 0 ? wanted : std::min(out.context, kMinContext);
    out.min_tokens = ((least + kernels::kKvPageTokens - 1) / kernels::kKvPageTokens + kMorePages) *
                     kernels::kKvPageTokens;
    out.min_tokens = std::min(out.min_tokens, options.max_tokens);
    out.min_states = request.contexts + kMoreStates + 1;
  }
  if (request.on_gpu)
    CHIMERE_CHECK_OK(move_to_gpu(settings, request.step_rows, runtime, observer, out));
  if (request.elastic) {
    CHIMERE_CHECK_OK(fit_context(wanted, out));
  } else if (out.gpu == nullptr) {
    CHIMERE_CHECK_OK(pool ? check_pool_memory(out, request.contexts, runtime)
                          : check_memory(out, request.contexts, runtime));
  }
  if (out.gpu == nullptr) {
    const int64_t left = std::max<int64_t>(0, runtime.host_memory().left());
    CHIMERE_TRY(out.memory_share, runtime.host_memory().take(std::min(promised_bytes(out), left)));
  }
  return out;
}

}  // namespace chimere::runtime
