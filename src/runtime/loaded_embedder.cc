#include "runtime/loaded_embedder.h"

#include <utility>

#include "runtime/load.h"
#include "runtime/model_path.h"

namespace chimere::runtime {

Result<LoadedEmbedder> load_embedder(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                     const Runtime& runtime, const LoadObserver& observer) {
  Settings own = settings;  // --ctx is that of the text model
  CHIMERE_CHECK_OK(own.set(settings::kContext, "0", "the embedding model"));
  LoadedEmbedder out;
  // At most one text is prefilled in chunks; the others of a step are short and take a page each.
  CHIMERE_TRY(out.loaded, load(std::move(file), own,
                               {.sequences = engine::Embedder::kMaxTexts,
                                .default_context = 8192,
                                .checkpoints = 2 * engine::Embedder::kMaxTexts,
                                .on_gpu = false},
                               runtime, observer));
  const LoadedModel& loaded = out.loaded;
  auto embedder =
      engine::Embedder::create(*loaded.model, *loaded.tokenizer, loaded.step_rows, loaded.context);
  if (!embedder.ok()) {
    Error error = std::move(embedder).error();
    if (error.code == Error::Code::kUnsupported) {
      error.message += " Name an embedding model, like the shipped one: " +
                       std::string(shipped_name(ShippedModel::kEmbedder)) + ".";
    }
    return error;
  }
  out.embedder = *std::move(embedder);
  return out;
}

}  // namespace chimere::runtime
