// Loaded models as the server uses them.
#ifndef CHIMERE_APPS_CHIMERE_RESIDENT_MODELS_H_
#define CHIMERE_APPS_CHIMERE_RESIDENT_MODELS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "gguf/reader.h"
#include "runtime/engram_memories.h"
#include "runtime/load_observer.h"
#include "runtime/runtime.h"
#include "serving/log_line.h"
#include "serving/model_registry.h"
#include "text/tokenizer.h"

namespace chimere::app {

using ServeLog = std::function<void(const serving::LogLine&)>;

/// The n-gram memories of clients: one set for each tokenizer, which models with the same one
/// share. Thread-safe.
class SharedMemories {
 public:
  /// `folder`: empty: there are none.
  explicit SharedMemories(std::string folder) : folder_(std::move(folder)) {}
  /// nullptr without a folder.
  std::shared_ptr<runtime::EngramMemories> of(const text::Tokenizer& tokenizer);

 private:
  const std::string folder_;
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<runtime::EngramMemories>> by_tokenizer_;
};

/// What the models of the server share. All members outlive the models.
struct ServeContext {
  const Settings& settings;
  const runtime::Runtime& runtime;
  std::string version;
  ServeLog log;
  std::shared_ptr<SharedMemories> memories;
};

/// A model that generates text, with an engine of its own. `id`: its name in the API. Errors: those
/// of runtime::load() and EngineService::create(); invalid sampling settings.
Result<std::unique_ptr<serving::ResidentModel>> load_text_model(
    std::unique_ptr<gguf::Reader> file, const std::string& id, const Settings& settings,
    const ServeContext& context, const runtime::LoadObserver& observer);

/// A model that computes embeddings. Errors: those of runtime::load_embedder().
Result<std::unique_ptr<serving::ResidentModel>> load_embedding_model(
    std::unique_ptr<gguf::Reader> file, const std::string& id, const Settings& settings,
    const ServeContext& context, const runtime::LoadObserver& observer);

/// A reranker. Errors: those of runtime::load_reranker().
Result<std::unique_ptr<serving::ResidentModel>> load_reranking_model(
    std::unique_ptr<gguf::Reader> file, const std::string& id, const Settings& settings,
    const ServeContext& context, const runtime::LoadObserver& observer);

/// Memory that a model's states may take if --state-memory is not given: a quarter of what its
/// weights leave of the budget.
int64_t default_state_memory(int64_t budget, int64_t file_bytes, const Settings& settings);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_RESIDENT_MODELS_H_
