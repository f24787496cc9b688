#include "loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/system.h"
#include "command.h"
#include "gpu.h"
#include "model/vocabulary.h"
#include "model_path.h"
#include "prefix_cache_options.h"
#include "tensor/dtype.h"

namespace chimere::app {

Result<std::unique_ptr<gguf::Reader>> open_model(const Settings& settings,
                                                 const std::string& name) {
  CHIMERE_TRY(
      const ModelPath found,
      find_model(name.empty() ? settings.get(settings::kModel) : name, model_folder(settings)));
  if (found.shipped)
    std::cerr << "No model named (-m): using the shipped model " << found.path << '\n';
  return gguf::Reader::open(found.path);
}

Result<std::unique_ptr<text::Tokenizer>> load_tokenizer(const gguf::Reader& file) {
  CHIMERE_TRY(text::Vocabulary vocabulary, model::vocabulary_from_gguf(file));
  return text::Tokenizer::create(std::move(vocabulary));
}

std::shared_ptr<state::WeightsHash> hash_weights(const Settings& settings,
                                                 const gguf::Reader& file) {
  const std::string folder = state_folder(settings);
  return state::WeightsHash::start(
      file.files(), {.folder = folder.empty() ? "" : folder + "/weights", .now_ns = nullptr});
}

namespace {

/// A context that memory cannot hold would end the program when it fills.
Status check_memory(const LoadedModel& loaded, int64_t contexts) {
  const state::StateStore& states = loaded.model->states();
  const int64_t available = available_memory();
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

/// The same for a pool of so many tokens.
Status check_pool_memory(const LoadedModel& loaded, int64_t sequences) {
  const state::StateStore& states = loaded.model->states();
  const int64_t available = available_memory();
  const int64_t kv = loaded.options.max_tokens * states.bytes_per_token();
  const int64_t left = available - sequences * states.bytes_per_slot();
  if (available == 0 || kv <= left) return {};  // 0: unknown
  return out_of_memory(fmt::format(
      "{} tokens take {} of keys and values, and {} of memory are free; ask for fewer, or for "
      "smaller types (--cache-k, --cache-v).",
      loaded.options.max_tokens, human_bytes(static_cast<double>(kv)),
      human_bytes(static_cast<double>(available))));
}

}  // namespace

Result<LoadedModel> load(const Settings& settings, const MemoryRequest& room) {
  CHIMERE_TRY(auto file, open_model(settings));
  return load(std::move(file), settings, room);
}

Result<LoadedModel> load(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                         const MemoryRequest& room) {
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
  out.context = wanted > 0 ? wanted : std::min(trained, room.default_context);

  const int64_t threads = settings.get(settings::kThreads);
  out.pool =
      std::make_unique<ThreadPool>(threads > 0 ? static_cast<int>(threads) : available_cpus());
  out.ops = kernels::make_cpu_ops(*out.pool);
  model::ModelOptions& options = out.options;
  // A checkpoint may share all pages but the one that its sequence continues writing to.
  const int64_t pages =
      (out.context + kernels::kKvPageTokens - 1) / kernels::kKvPageTokens + room.checkpoints;
  const bool pool = wanted == 0 && room.default_tokens > 0;
  options.max_tokens = pool ? room.default_tokens : pages * room.contexts * kernels::kKvPageTokens;
  options.max_states = std::max(options.max_states,
                                2 * (std::max(room.contexts, room.sequences) + room.checkpoints));
  out.step_rows = room.step_rows > 0 ? room.step_rows : LoadedModel::kHostStepRows;
  options.max_step_rows = out.step_rows;
  options.cache_k = *parse_dtype(settings.get(settings::kCacheK));
  options.cache_v = *parse_dtype(settings.get(settings::kCacheV));
  options.expert_top_p = static_cast<float>(settings.get(settings::kExpertTopP));
  const std::string& speculate = settings.get(settings::kSpeculate);
  options.drafts = speculate == "auto" || speculate == "mtp";
  CHIMERE_TRY(out.model, model::load_model(*out.file, *out.ops, options));
  out.min_states = room.contexts + room.checkpoints + 1;
  if (room.on_gpu) CHIMERE_CHECK_OK(move_to_gpu(settings, room.step_rows, out));
  if (out.gpu == nullptr) {
    CHIMERE_CHECK_OK(pool ? check_pool_memory(out, room.contexts)
                          : check_memory(out, room.contexts));
  }
  return out;
}

}  // namespace chimere::app
