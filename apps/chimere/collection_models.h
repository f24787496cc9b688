// The models of document collections, for commands that search in them.
#ifndef CHIMERE_APPS_CHIMERE_COLLECTION_MODELS_H_
#define CHIMERE_APPS_CHIMERE_COLLECTION_MODELS_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "retrieval/collections.h"
#include "retrieval/text_models.h"

namespace chimere::app {

/// The embedder that --embedding-model names, by default the shipped one; nullptr for "none".
/// Thread-safe. Errors: those of open_model() and runtime::load_embedder().
Result<std::shared_ptr<retrieval::TextEmbedder>> collection_embedder(const Settings& settings);

/// The reranker that --rerank-model names; nullptr without one. Errors: those of open_model() and
/// runtime::load_reranker().
Result<std::shared_ptr<retrieval::TextReranker>> collection_reranker(const Settings& settings);

/// --collections, or the default folder. Errors: kInvalidArgument without a home folder.
Result<std::string> collections_folder(const Settings& settings);

/// All collections with these models.
Result<std::unique_ptr<retrieval::Collections>> open_collections(const Settings& settings);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_COLLECTION_MODELS_H_
