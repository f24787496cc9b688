// What hybrid models share: layers of a mixer over positions and a feed-forward network, each
// behind a norm and added to the stream, between an embedding table and an output head.
#ifndef CHIMERE_MODEL_HYBRID_MODEL_H_
#define CHIMERE_MODEL_HYBRID_MODEL_H_

#include <memory>

#include "model/hparams.h"
#include "model/model.h"

namespace chimere::model {

/// As load_model(), for files of one architecture. Blocks that predict further tokens are checked,
/// so that a damaged file is found out at once, but forward() does not run them.
Result<std::unique_ptr<Model>> load_hybrid_model(const gguf::Reader& file, kernels::Ops& ops,
                                                 const ModelOptions& options,
                                                 const HybridKind& kind);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_HYBRID_MODEL_H_
