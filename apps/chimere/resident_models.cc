#include "resident_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/service.h"
#include "kernels/api.h"
#include "runtime/adapters.h"
#include "runtime/constraint_factory.h"
#include "runtime/drafter.h"
#include "runtime/file_defaults.h"
#include "runtime/load.h"
#include "runtime/loaded_embedder.h"
#include "runtime/loaded_model.h"
#include "runtime/prefix_cache_options.h"
#include "runtime/request.h"
#include "served_memories.h"
#include "text/fingerprint.h"

namespace chimere::app {
namespace {

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Bytes of the weights and of the states that the model may hold, with those of its drafter.
int64_t bytes_of(const runtime::LoadedModel& loaded) {
  const state::StateStore& states = loaded.model->states();
  int64_t all =
      states.max_pages() * states.page_stride() + states.max_slots() * states.slot_stride();
  if (states.max_bytes() > 0) all = std::min(all, states.max_bytes());
  if (loaded.drafter != nullptr) {
    all += static_cast<int64_t>(loaded.drafter->file->file_bytes()) +
           runtime::drafter_state_bytes(*loaded.drafter, loaded.options.max_states);
  }
  return static_cast<int64_t>(loaded.file->file_bytes()) + all;
}

std::string draft_memory_full_text(bool on_gpu) {
  return fmt::format(
      "Some requests go without the drafter's drafts: the memory of its keys and values is full{}",
      on_gpu ? " on the GPU. A larger --ctx gives it more."
             : ", an eighth of --state-memory at most. A larger --state-memory gives it more.");
}

class TextModel final : public serving::ResidentModel {
 public:
  explicit TextModel(runtime::LoadedModel loaded) : loaded_(std::move(loaded)) {}
  ~TextModel() override {
    if (service_ != nullptr) service_->stop();
  }

  Status start(const std::string& id, const Settings& given, const ServeContext& context) {
    CHIMERE_TRY(const Settings settings, runtime::with_file_defaults(given, *loaded_.file));
    engine::ServiceOptions options;
    options.engine = {.max_step_rows = loaded_.step_rows,
                      .max_running = static_cast<int32_t>(settings.get(settings::kMaxRunning)),
                      .context = loaded_.context,
                      .pool = loaded_.pool.get(),
                      .draft_model = loaded_.draft_model(),
                      .draft_memory_full = [log = context.log, id, gpu = loaded_.gpu != nullptr] {
                        log(serving::LogLine("model_warning")
                                .add("model", id)
                                .add("what", draft_memory_full_text(gpu)));
                      }};
    const auto tell = [log = context.log](const std::string& what) {
      log(serving::LogLine("prefix_cache").add("what", what));
    };
    options.cache = runtime::prefix_cache_options(settings, *loaded_.file, tell);
    if (options.cache) prefix_memory_ = options.cache->memory_bytes;
    const std::optional<std::string> notice = runtime::first_start_notice(options.cache);
    options.max_queue = static_cast<int32_t>(settings.get(settings::kMaxQueue));
    CHIMERE_TRY(service_,
                engine::EngineService::create(*loaded_.model, *loaded_.tokenizer, options));
    std::error_code unreadable;  // the cache has warned already
    if (notice && std::filesystem::exists(options.cache->disk.folder, unreadable)) tell(*notice);
    memories_ = context.memories->of(*loaded_.tokenizer);
    describe(id, settings, context);
    requests_.emplace(*loaded_.tokenizer,
                      runtime::reasoning_tags(served_->prompt_template, *loaded_.tokenizer));
    // Reports invalid defaults, such as a missing table, now and not with the first request.
    CHIMERE_TRY([[maybe_unused]] const engine::Request first, requests_->make(settings));
    connect_engram();
    // A model without a template serves completions; a chosen one that is wrong is an error.
    if (!served_->prompt_template.ok() && !settings.get(settings::kChatTemplate).empty()) {
      return served_->prompt_template.error();
    }
    return {};
  }

  const serving::ServedModel* text() const override { return &*served_; }
  int64_t bytes() const override { return bytes_of(loaded_) + prefix_memory_; }
  void drain(std::chrono::steady_clock::time_point deadline) override { service_->drain(deadline); }

 private:
  void describe(const std::string& id, const Settings& settings, const ServeContext& context) {
    serving::ServedModel& out = served_.emplace(
        serving::ServedModel{.tokenizer = *loaded_.tokenizer, .service = *service_});
    out.id = id;
    out.trained_context = loaded_.trained_context;
    out.created = unix_seconds();
    out.fingerprint =
        fmt::format("{}+{}+numerics-{}", context.version, out.id, kernels::kNumericsVersion);
    if (loaded_.options.expert_top_p < 1)
      out.fingerprint += fmt::format("+experts-{}", loaded_.options.expert_top_p);
    out.adapters = loaded_.adapters;
    out.slots = settings.get(settings::kMaxRunning);
    out.defaults = settings;
    if (loaded_.drafter != nullptr) {
      runtime::DrafterFacts facts = runtime::drafter_facts(*loaded_.drafter);
      out.draft_model = {.name = std::move(facts.name),
                         .bytes = facts.bytes,
                         .block_size = facts.block_size,
                         .backend = loaded_.gpu != nullptr ? "cuda" : "cpu"};
    }
    const auto constraints =
        std::make_shared<runtime::ConstraintFactory>(*loaded_.tokenizer, loaded_.model->n_vocab());
    out.compile_constraint = [constraints](const constraints::ConstraintSpec& spec,
                                           const std::function<void()>& when_slow) {
      return constraints->compile(spec, when_slow);
    };
    out.prompt_template = runtime::load_prompt_template(
        *loaded_.file, *loaded_.tokenizer, settings, [&](const std::string& what) {
          context.log(serving::LogLine("model_warning").add("model", id).add("what", what));
        });
    if (!out.prompt_template.ok()) {
      context.log(serving::LogLine("no_chat").add("reason", out.prompt_template.error().message));
    }
  }

  /// Sets the functions of the model that read and write engram tables.
  void connect_engram() {
    serving::ServedModel& model = *served_;
    model.make_request = [this](const Settings& s, const std::string& owner,
                                std::span<const std::string> names) -> Result<engine::Request> {
      engram::Memory::Tables tables;
      if (!names.empty() && memories_ == nullptr) {
        return not_found("This server stores no memories.");
      }
      if (memories_ != nullptr) {
        CHIMERE_TRY(tables, memories_->tables(owner, names));
      }
      auto request = requests_->make(s, tables);
      if (!request.ok() && request.error().code == Error::Code::kNotFound) {
        return io_error("A table that this server was started with (--engram) no longer exists.");
      }
      if (request.ok()) request->owner = owner;
      return request;
    };
    if (memories_ == nullptr) return;
    model.engram_tables = served_memories(*memories_, *loaded_.tokenizer);
    model.remember = [this](const std::string& owner, const std::string& table,
                            const protocol::EngramRequest& asked) -> Result<serving::EngramReport> {
      std::vector<engram::Candidate> texts;
      for (const protocol::EngramRequest::Text& t : asked.texts) {
        texts.push_back({loaded_.tokenizer->encode(t.text, false), t.score});
      }
      CHIMERE_TRY(engram::WriteReport done, memories_->write(owner, table, texts, asked.source));
      return serving::EngramReport{static_cast<int64_t>(done.written), std::move(done.refused),
                                   static_cast<int64_t>(done.ngrams)};
    };
  }

  runtime::LoadedModel loaded_;
  std::optional<runtime::RequestFactory> requests_;
  std::shared_ptr<runtime::EngramMemories> memories_;
  int64_t prefix_memory_ = 0;
  std::unique_ptr<engine::EngineService> service_;
  std::optional<serving::ServedModel> served_;
};

class EmbeddingModel final : public serving::ResidentModel {
 public:
  EmbeddingModel(const std::string& id, runtime::LoadedEmbedder loaded)
      : loaded_(std::move(loaded)),
        service_(*loaded_.embedder),
        served_{id, service_, loaded_.pairs} {}

  const serving::ServedEmbedder* embedder() const override { return &served_; }
  int64_t bytes() const override { return bytes_of(loaded_.loaded); }
  /// Its requests are short.
  void drain(std::chrono::steady_clock::time_point /*deadline*/) override {}

 private:
  runtime::LoadedEmbedder loaded_;
  engine::EmbeddingService service_;
  serving::ServedEmbedder served_;
};

}  // namespace

std::shared_ptr<runtime::EngramMemories> SharedMemories::of(const text::Tokenizer& tokenizer) {
  if (folder_.empty()) return nullptr;
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<runtime::EngramMemories>& known = by_tokenizer_[text::fingerprint(tokenizer)];
  std::shared_ptr<runtime::EngramMemories> out = known.lock();
  if (out == nullptr) {
    out = std::make_shared<runtime::EngramMemories>(folder_, tokenizer);
    known = out;
  }
  return out;
}

Result<std::unique_ptr<serving::ResidentModel>> load_text_model(
    std::unique_ptr<gguf::Reader> file, const std::string& id, const Settings& settings,
    const ServeContext& context, const runtime::LoadObserver& observer) {
  // Few sequences fill their context, so all sequences share the capacity of this many full
  // contexts. When it is exhausted, the youngest ones are evicted and resumed later.
  constexpr int64_t kContexts = 8;
  const int64_t running = settings.get(settings::kMaxRunning);
  CHIMERE_TRY(runtime::LoadedModel loaded,
              runtime::load(std::move(file), settings,
                            {.contexts = std::min(running, kContexts),
                             .sequences = running,
                             .default_context = std::numeric_limits<int64_t>::max(),
                             .checkpoints = settings.get(settings::kCacheStates),
                             .elastic = true,
                             .drafter = true},
                            context.runtime, observer));
  CHIMERE_CHECK_OK(runtime::load_adapters(settings, loaded));
  auto model = std::make_unique<TextModel>(std::move(loaded));
  CHIMERE_CHECK_OK(model->start(id, settings, context));
  return std::unique_ptr<serving::ResidentModel>(std::move(model));
}

Result<std::unique_ptr<serving::ResidentModel>> load_embedding_model(
    std::unique_ptr<gguf::Reader> file, const std::string& id, const Settings& settings,
    const ServeContext& context, const runtime::LoadObserver& observer) {
  CHIMERE_TRY(runtime::LoadedEmbedder loaded,
              runtime::load_embedder(std::move(file), settings, context.runtime, observer));
  return std::unique_ptr<serving::ResidentModel>(
      std::make_unique<EmbeddingModel>(id, std::move(loaded)));
}

Result<std::unique_ptr<serving::ResidentModel>> load_reranking_model(
    std::unique_ptr<gguf::Reader> file, const std::string& id, const Settings& settings,
    const ServeContext& context, const runtime::LoadObserver& observer) {
  CHIMERE_TRY(runtime::LoadedEmbedder loaded,
              runtime::load_reranker(std::move(file), settings, context.runtime, observer));
  return std::unique_ptr<serving::ResidentModel>(
      std::make_unique<EmbeddingModel>(id, std::move(loaded)));
}

int64_t default_state_memory(int64_t budget, int64_t file_bytes, const Settings& settings) {
  const int64_t prefix =
      settings.get(settings::kCacheStates) == 0 ? 0 : settings.get(settings::kCacheMemory) << 20;
  return std::max<int64_t>(0, budget - file_bytes - prefix) / 4;
}

}  // namespace chimere::app
