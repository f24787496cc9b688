#include "runtime/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_amount.h"
#include "base/system.h"
#include "engine/speculation/drafter.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/unpacked_iq3_s.h"
#include "runtime/drafter.h"
#include "runtime/gpu.h"
#include "runtime/memory_budget.h"
#include "tensor/dtype.h"

namespace chimere::runtime {
namespace {

/// Bytes of host memory that no model of the runtime was promised; 0: unknown.
int64_t free_memory(const Runtime& runtime) {
  return std::min(available_memory(), std::max<int64_t>(1, runtime.host_memory().left()));
}

/// The instruction set that --cpu-isa names.
Result<kernels::CpuIsa> cpu_isa(const std::string& name) {
  if (name == "auto") return kernels::best_cpu_isa();
  std::string usable;
  for (const kernels::CpuIsa isa : kernels::usable_cpu_isas()) {
    if (name == kernels::cpu_isa_name(isa)) return isa;
    usable += (usable.empty() ? "" : ", ") + std::string(kernels::cpu_isa_name(isa));
  }
  return invalid_argument(
      fmt::format("--cpu-isa {}: this processor, or this build, has only: {}.", name, usable));
}

/// What the states of a model on the CPU and of its drafter may take.
int64_t promised_bytes(const LoadedModel& loaded) {
  const state::StateStore& states = loaded.model->states();
  const int64_t all =
      states.max_pages() * states.page_stride() + states.max_slots() * states.bytes_per_slot();
  const int64_t drafter =
      loaded.drafter == nullptr
          ? 0
          : drafter_state_bytes(*loaded.drafter,
                                loaded.elastic ? loaded.options.max_states : loaded.min_states);
  if (loaded.elastic) {
    return drafter + (states.max_bytes() > 0 ? std::min(all, states.max_bytes()) : all);
  }
  return drafter + states.max_pages() * states.page_stride() +
         std::min(loaded.min_states, states.max_slots()) * states.bytes_per_slot();
}

/// Bytes that a token's keys and values, and that what does not grow with a sequence take: of the
/// model and its drafter.
struct SequenceBytes {
  int64_t per_token = 0;
  int64_t per_slot = 0;
};
SequenceBytes sequence_bytes(const LoadedModel& loaded) {
  SequenceBytes out;
  for (model::Model* const model : {loaded.model.get(), loaded.draft_model()}) {
    if (model == nullptr) continue;
    out.per_token += model->states().bytes_per_token();
    out.per_slot += model->states().bytes_per_slot();
  }
  return out;
}

/// Rejects a context that memory cannot hold: the process would be killed once the context fills.
Status check_memory(const LoadedModel& loaded, int64_t contexts, const Runtime& runtime) {
  const SequenceBytes bytes = sequence_bytes(loaded);
  const int64_t available = free_memory(runtime);
  const int64_t per_token = std::max<int64_t>(1, bytes.per_token);
  const int64_t fits = std::max<int64_t>(0, available / contexts - bytes.per_slot) / per_token;
  if (available == 0 || loaded.context <= fits) return {};  // 0: unknown
  return out_of_memory(fmt::format(
      "A context of {} tokens takes {} of keys and values{}{}, and {} of memory are free; ask for "
      "at most {} tokens (--ctx), or for smaller types (--cache-k, --cache-v){}.",
      loaded.context, human_bytes(static_cast<double>(loaded.context * per_token)),
      contexts > 1 ? fmt::format(" in each of {} conversations", contexts) : "",
      loaded.drafter != nullptr ? ", the drafter's included" : "",
      human_bytes(static_cast<double>(available)), fits,
      loaded.drafter != nullptr ? ", or leave out --draft-model" : ""));
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

/// Bytes of the experts that unpacking changes (kernels/cpu/unpacked_iq3_s.h).
struct UnpackedBytes {
  int64_t in_file = 0;
  int64_t in_memory = 0;

  /// Bytes that a model takes more: nobody reads the file's own any more.
  int64_t more() const { return in_memory - in_file; }
};
UnpackedBytes unpacked_experts(const gguf::Reader& file) {
  UnpackedBytes out;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const bool expert = tensor.name.find("_exps.") != std::string::npos;
    if (!expert || tensor.type != DType::kIQ3_S || tensor.dims.empty()) continue;
    const int64_t row = tensor.dims.front();
    const auto bytes = static_cast<int64_t>(tensor.bytes);
    out.in_file += bytes;
    out.in_memory += bytes / row_bytes(tensor.type, row) * kernels::cpu::unpacked_row_bytes(row);
  }
  return out;
}

/// Whether --unpack-experts unpacks this file's experts: with auto, where the instruction set gains
/// from it and memory holds the whole model. Errors: kInvalidArgument.
Result<bool> unpacks_experts(const Settings& settings, const gguf::Reader& file,
                             kernels::CpuIsa isa, bool on_gpu, const Runtime& runtime) {
  const std::string& wanted = settings.get(settings::kUnpackExperts);
  if (wanted == "on") {
    if (!on_gpu) return true;
    return invalid_argument(
        "--unpack-experts on needs --backend cpu: it changes nothing on this machine's GPU.");
  }
  if (wanted == "off" || on_gpu || !kernels::gains_from_unpacking(isa)) return false;
  const UnpackedBytes experts = unpacked_experts(file);
  const int64_t all = static_cast<int64_t>(file.file_bytes()) + experts.more();
  return experts.in_memory > 0 && all <= free_memory(runtime) / 8 * 7;
}

/// Limit in bytes for states on the host: --state-memory, or three quarters of the memory that the
/// weights (`unpacked` bytes more than in the file) and the prefix cache leave; 0: free memory is
/// unknown. Errors: kInvalidArgument.
Result<int64_t> host_state_bytes(const Settings& settings, const gguf::Reader& file,
                                 int64_t unpacked, const Runtime& runtime) {
  if (!settings.get(settings::kStateMemory).empty()) return state_memory(settings);
  const int64_t available = free_memory(runtime);
  const int64_t left = available - static_cast<int64_t>(file.file_bytes()) - unpacked -
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
        "allow more (--state-memory){}, or use smaller types (--cache-k, --cache-v){}.",
        needed, bytes(needed * states.bytes_per_token() + kSlots * states.bytes_per_slot()),
        bytes(states.max_bytes()), shorter,
        loaded.drafter != nullptr ? ", or leave out --draft-model" : ""));
  }
  loaded.context = std::min(loaded.context, fits);
  return {};
}

/// What the settings say about rotary positions.
model::RopeOptions rope_options(const Settings& settings) {
  using model::RopeScalingType;
  constexpr std::pair<std::string_view, RopeScalingType> kTypes[] = {
      {"none", RopeScalingType::kNone},
      {"linear", RopeScalingType::kLinear},
      {"yarn", RopeScalingType::kYarn},
      {"ntk", RopeScalingType::kNtk},
      {"dynamic", RopeScalingType::kDynamic}};
  model::RopeOptions rope;
  for (const auto& [name, type] : kTypes) {
    if (settings.get(settings::kRopeScaling) == name) rope.type = type;
  }
  const auto set = [&](const auto& setting, std::optional<float>& member) {
    if (const double value = settings.get(setting); value > 0) member = static_cast<float>(value);
  };
  set(settings::kRopeScale, rope.factor);
  set(settings::kRopeFreqBase, rope.freq_base);
  set(settings::kYarnAttnFactor, rope.attn_factor);
  set(settings::kYarnBetaFast, rope.beta_fast);
  set(settings::kYarnBetaSlow, rope.beta_slow);
  if (const double share = settings.get(settings::kYarnExtFactor); share >= 0) {
    rope.ext_factor = static_cast<float>(share);
  }
  if (const int64_t context = settings.get(settings::kYarnOrigCtx); context > 0) {
    rope.original_context = static_cast<int>(context);
  }
  return rope;
}

}  // namespace

Result<LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                         const MemoryRequest& request, const Runtime& runtime,
                         const LoadObserver& observer) {
  LoadedModel out;
  out.file = std::move(file);
  CHIMERE_TRY(const std::string architecture, out.file->get_string("general.architecture"));
  CHIMERE_CHECK_OK(model::check_architecture(*out.file));
  std::string corrected;
  CHIMERE_TRY(out.tokenizer, load_tokenizer(*out.file, &corrected));
  if (!corrected.empty()) observer.say(corrected);
  CHIMERE_TRY(const int64_t trained, out.file->get_int(architecture + ".context_length"));
  const int64_t wanted = settings.get(settings::kContext);
  model::ModelOptions& options = out.options;
  options.rope = rope_options(settings);
  if (wanted > trained && !options.rope.type) {
    return invalid_argument(fmt::format(
        "--ctx {} is more than the {} tokens that this model was trained for; ask for "
        "at most that, or choose how its positions are scaled: --rope-scaling yarn "
        "(linear, ntk, dynamic) extends the context at some cost in quality, "
        "--rope-scaling none does not scale them, and answers degrade beyond {} tokens.",
        wanted, trained, trained));
  }
  out.context = wanted > 0 ? wanted : std::min(trained, request.default_context);
  out.trained_context = trained;
  out.elastic = request.elastic;

  out.pool = runtime.pool();
  CHIMERE_TRY(out.cpu_isa, cpu_isa(settings.get(settings::kCpuIsa)));
  std::unique_ptr<kernels::cuda::Device> gpu;
  if (request.on_gpu) {
    CHIMERE_TRY(gpu, choose_gpu(settings, runtime));
  }
  CHIMERE_TRY(bool unpack,
              unpacks_experts(settings, *out.file, out.cpu_isa, gpu != nullptr, runtime));
  if (request.wrap_ops) unpack = false;  // who observes weights gets them as the file has them
  const auto unpacked = std::make_shared<int64_t>(0);  // the ops keep the function
  std::optional<kernels::Unpacking> unpacking;
  if (unpack) {
    unpacking.emplace();
    // Read, not mapped: the file's own pages of these weights are not needed afterwards. Where
    // memory cannot hold both, what the system keeps of the file takes the place of huge pages.
    const int64_t both =
        static_cast<int64_t>(out.file->file_bytes()) + unpacked_experts(*out.file).in_memory;
    const int64_t available = free_memory(runtime);
    const bool keep = available == 0 || both <= available / 8 * 7;  // 0: unknown
    unpacking->read = [reader = out.file.get(), keep](const uint8_t* from,
                                                      std::span<uint8_t> to) -> Status {
      CHIMERE_CHECK_OK(reader->read(from, to));
      if (!keep) reader->forget(from, to.size());
      return {};
    };
    unpacking->done = [unpacked](int64_t bytes) { *unpacked += bytes; };
  }
  out.ops = kernels::make_cpu_ops(*out.pool, out.cpu_isa, std::move(unpacking));
  if (request.wrap_ops) out.ops = request.wrap_ops(std::move(out.ops));
  options.rope.context = out.context;
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
    const int64_t more = unpack ? unpacked_experts(*out.file).more() : 0;
    CHIMERE_TRY(options.max_state_bytes, host_state_bytes(settings, *out.file, more, runtime));
  }
  options.max_states =
      std::max(options.max_states,
               2 * (std::max(request.contexts, request.sequences) + request.checkpoints));
  int step_rows = request.step_rows;
  if (request.whole_texts) {
    CHIMERE_TRY(const bool encoder, model::is_encoder(*out.file));
    constexpr int64_t kHostRows = LoadedModel::kHostStepRows;
    if (encoder) step_rows = static_cast<int>(std::max(kHostRows, out.context));
  }
  out.step_rows = step_rows > 0 ? step_rows : LoadedModel::kHostStepRows;
  options.pooling = request.pooling;
  options.max_step_rows = out.step_rows;
  options.cache_k = *parse_dtype(settings.get(settings::kCacheK));
  options.cache_v = *parse_dtype(settings.get(settings::kCacheV));
  options.expert_top_p = static_cast<float>(settings.get(settings::kExpertTopP));
  const auto speculation = engine::Speculation::named(settings.get(settings::kSpeculate));
  options.drafts = speculation && engine::reads_draft_kv(*speculation);
  if (request.drafter) {
    CHIMERE_TRY(out.drafter, load_drafter(settings, out, observer));
  }
  if (out.drafter != nullptr && options.max_state_bytes > 0) {
    options.max_state_bytes -= drafter_state_bytes(*out.drafter, options.max_states);
  }
  CHIMERE_TRY(out.model, model::load_model(*out.file, *out.ops, options));
  if (!out.model->left_out().empty()) observer.say(out.model->left_out());
  out.unpacked_bytes = *unpacked;
  if (*unpacked > 0) {
    observer.say(
        fmt::format("Unpacked experts into {}", human_bytes(static_cast<double>(*unpacked))));
  } else if (settings.get(settings::kUnpackExperts) == "on") {
    observer.warn(fmt::format(
        "--unpack-experts on changes nothing: this file has no experts of IQ3_S, or the {} kernels "
        "need no unpacking.",
        kernels::cpu_isa_name(out.cpu_isa)));
  }
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
  if (gpu != nullptr) {
    CHIMERE_CHECK_OK(move_to_gpu(settings, step_rows, runtime, observer, std::move(gpu), out));
  }
  if (out.drafter != nullptr) {
    const std::string device = out.gpu != nullptr ? gpu_name(out.gpu->facts()) : "the CPU";
    observer.say(drafter_text(*out.drafter, settings, device));
  }
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
