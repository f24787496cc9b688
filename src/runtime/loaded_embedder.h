// An embedding model made ready to run.
#ifndef CHIMERE_RUNTIME_LOADED_EMBEDDER_H_
#define CHIMERE_RUNTIME_LOADED_EMBEDDER_H_

#include <memory>

#include "base/result.h"
#include "base/settings.h"
#include "engine/embedder.h"
#include "engine/reranker.h"
#include "runtime/load_observer.h"
#include "runtime/loaded_model.h"
#include "runtime/runtime.h"

namespace chimere::runtime {

struct LoadedEmbedder {
  LoadedModel loaded;
  std::unique_ptr<engine::Embedder> embedder;
  engine::PairFormat pairs;  ///< of a reranker
};

/// On the GPU if the settings select one and it fits. Reads as many tokens of a text as the model
/// was trained for, 8192 at most. Pools as --pooling says. Errors: those of load() and
/// Embedder::create().
Result<LoadedEmbedder> load_embedder(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                     const Runtime& runtime, const LoadObserver& observer = {});

/// The same for a reranker; its pooling is the file's. Errors: also kUnsupported (the model is
/// none).
Result<LoadedEmbedder> load_reranker(std::unique_ptr<gguf::Reader> file, const Settings& settings,
                                     const Runtime& runtime, const LoadObserver& observer = {});

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_LOADED_EMBEDDER_H_
