#include "runtime/loaded_embedder.h"

#include <optional>
#include <string>
#include <utility>

#include "runtime/load.h"
#include "runtime/model_path.h"

namespace chimere::runtime {

namespace {

std::optional<model::Pooling> pooling_from(const Settings& settings) {
  const std::string& name = settings.get(settings::kPooling);
  if (name == "none") return model::Pooling::kNone;
  if (name == "mean") return model::Pooling::kMean;
  if (name == "cls") return model::Pooling::kCls;
  if (name == "last") return model::Pooling::kLast;
  return std::nullopt;
}

Result<LoadedEmbedder> load_any(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                std::optional<model::Pooling> pooling, const Runtime& runtime,
                                const LoadObserver& observer) {
  Settings own = settings;  // --ctx is that of the text model
  CHIMERE_CHECK_OK(own.set(settings::kContext, "0", "the embedding model"));
  LoadedEmbedder out;
  // At most one text is prefilled in chunks; the others of a step are short and take a page each.
  CHIMERE_TRY(out.loaded, load(std::move(file), own,
                               {.sequences = engine::Embedder::kMaxTexts,
                                .default_context = 8192,
                                .checkpoints = 2 * engine::Embedder::kMaxTexts,
                                .whole_texts = true,
                                .pooling = pooling},
                               runtime, observer));
  const LoadedModel& loaded = out.loaded;
  auto embedder =
      engine::Embedder::create(*loaded.model, *loaded.tokenizer, loaded.step_rows, loaded.context);
  if (!embedder.ok()) return std::move(embedder).error();
  out.embedder = *std::move(embedder);
  return out;
}

Error with_advice(Error error, const char* advice) {
  if (error.code == Error::Code::kUnsupported) error.message += advice;
  return error;
}

}  // namespace

Result<LoadedEmbedder> load_embedder(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                     const Runtime& runtime, const LoadObserver& observer) {
  auto loaded = load_any(std::move(file), settings, pooling_from(settings), runtime, observer);
  const std::string advice = " Name an embedding model, like the shipped one: " +
                             std::string(shipped_name(ShippedModel::kEmbedder)) + ".";
  if (!loaded.ok()) return with_advice(std::move(loaded).error(), advice.c_str());
  if (loaded->embedder->ranks()) {
    return unsupported("This model scores pairs of texts; it does not compute embeddings." +
                       advice);
  }
  return loaded;
}

Result<LoadedEmbedder> load_reranker(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                     const Runtime& runtime, const LoadObserver& observer) {
  constexpr const char* kAdvice =
      " Name a reranker: a model whose file has pooling_type rank (4) and a head (cls.output).";
  auto loaded = load_any(std::move(file), settings, std::nullopt, runtime, observer);
  if (!loaded.ok()) return with_advice(std::move(loaded).error(), kAdvice);
  if (!loaded->embedder->ranks()) {
    return unsupported(std::string("This model does not score pairs of texts.") + kAdvice);
  }
  CHIMERE_TRY(loaded->pairs,
              engine::PairFormat::of_file(*loaded->loaded.file, loaded->loaded.model->encoder()));
  return loaded;
}

}  // namespace chimere::runtime
