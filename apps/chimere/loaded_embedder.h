// An embedding model made ready to run.
#ifndef CHIMERE_APPS_CHIMERE_LOADED_EMBEDDER_H_
#define CHIMERE_APPS_CHIMERE_LOADED_EMBEDDER_H_

#include <memory>

#include "base/result.h"
#include "engine/embedder.h"
#include "loaded_model.h"

namespace chimere::app {

struct LoadedEmbedder {
  LoadedModel loaded;
  std::unique_ptr<engine::Embedder> embedder;
};

/// On the CPU. Reads as many tokens of a text as the model was trained for, 8192 at most. Errors:
/// those of load() and Embedder::create().
Result<LoadedEmbedder> load_embedder(std::unique_ptr<gguf::Reader> file, const Settings& settings);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_LOADED_EMBEDDER_H_
