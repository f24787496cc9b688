#include "collection_models.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>
#include <vector>

#include "base/system.h"
#include "loading.h"
#include "runtime/loaded_embedder.h"
#include "runtime/runtime.h"
#include "runtime/state_folder.h"

namespace chimere::app {
namespace {

class LocalEmbedder final : public retrieval::TextEmbedder {
 public:
  LocalEmbedder(runtime::LoadedEmbedder loaded, std::string identity)
      : loaded_(std::move(loaded)), identity_(std::move(identity)) {}

  std::string identity() const override { return identity_; }
  int64_t dimensions() const override { return loaded_.embedder->dimensions(); }
  Result<std::vector<std::vector<float>>> embed(std::span<const std::string> texts) override {
    engine::Embedder& embedder = *loaded_.embedder;
    const auto context = static_cast<size_t>(embedder.context());
    std::vector<std::vector<int32_t>> tokens;
    tokens.reserve(texts.size());
    for (const std::string& text : texts) {
      std::vector<int32_t> ids = embedder.encode(text.empty() ? " " : text);
      if (ids.size() > context) ids.resize(context);
      tokens.push_back(std::move(ids));
    }
    const std::scoped_lock lock(mutex_);
    return embedder.embed(tokens);
  }

 private:
  runtime::LoadedEmbedder loaded_;
  std::string identity_;
  std::mutex mutex_;
};

class LocalReranker final : public retrieval::TextReranker {
 public:
  explicit LocalReranker(runtime::LoadedEmbedder loaded) : loaded_(std::move(loaded)) {}

  Result<std::vector<double>> score(const std::string& query,
                                    std::span<const std::string> passages) override {
    std::vector<engine::EmbeddingInput> pairs;
    pairs.reserve(passages.size());
    for (const std::string& passage : passages) {
      CHIMERE_TRY(auto pair, loaded_.pairs.join(*loaded_.embedder, query, passage));
      pairs.push_back(std::move(pair));
    }
    const std::scoped_lock lock(mutex_);
    CHIMERE_TRY(const auto logits, loaded_.embedder->compute(pairs));
    std::vector<double> scores;
    scores.reserve(logits.size());
    for (const std::vector<float>& values : logits) scores.push_back(engine::relevance(values));
    return scores;
  }

 private:
  runtime::LoadedEmbedder loaded_;
  std::mutex mutex_;
};

constexpr const char* kNone = "none";

}  // namespace

Result<std::shared_ptr<retrieval::TextEmbedder>> collection_embedder(const Settings& settings) {
  const std::string& named = settings.get(settings::kEmbeddingModel);
  if (named == kNone) return std::shared_ptr<retrieval::TextEmbedder>();
  const std::string name =
      named.empty() ? runtime::shipped_name(runtime::ShippedModel::kEmbedder) : named;
  CHIMERE_TRY(auto file, open_model(settings, name));
  const auto hash = runtime::hash_weights(settings, *file);
  CHIMERE_TRY(auto loaded,
              runtime::load_embedder(std::move(file), settings, runtime::Runtime(settings)));
  CHIMERE_TRY(const state::Hash128 weights, hash->get());
  std::string identity =
      fmt::format("{} {:016x}{:016x}", name.substr(name.rfind('/') + 1), weights.high, weights.low);
  return std::shared_ptr<retrieval::TextEmbedder>(
      std::make_shared<LocalEmbedder>(std::move(loaded), std::move(identity)));
}

Result<std::shared_ptr<retrieval::TextReranker>> collection_reranker(const Settings& settings) {
  const std::string& name = settings.get(settings::kRerankModel);
  if (name.empty() || name == kNone) return std::shared_ptr<retrieval::TextReranker>();
  CHIMERE_TRY(auto file, open_model(settings, name));
  CHIMERE_TRY(auto loaded,
              runtime::load_reranker(std::move(file), settings, runtime::Runtime(settings)));
  return std::shared_ptr<retrieval::TextReranker>(
      std::make_shared<LocalReranker>(std::move(loaded)));
}

Result<std::string> collections_folder(const Settings& settings) {
  const std::string& named = settings.get(settings::kCollections);
  if (!named.empty()) return named;
  const std::string users = data_folder();
  if (users.empty()) {
    return invalid_argument(
        "Neither HOME nor XDG_DATA_HOME is set; name the folder of collections with --collections "
        "FOLDER.");
  }
  return users + "/chimere/collections";
}

Result<std::unique_ptr<retrieval::Collections>> open_collections(const Settings& settings) {
  CHIMERE_TRY(std::string folder, collections_folder(settings));
  CHIMERE_TRY(auto embedder, collection_embedder(settings));
  CHIMERE_TRY(auto reranker, collection_reranker(settings));
  return std::make_unique<retrieval::Collections>(std::move(folder), std::move(embedder),
                                                  std::move(reranker));
}

}  // namespace chimere::app
