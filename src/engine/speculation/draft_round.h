// Proposes the drafts of all decoding requests before a step is planned.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFT_ROUND_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFT_ROUND_H_

#include <cstdint>
#include <memory>
#include <span>

#include "engine/generation.h"
#include "engine/speculation/draft_statistics.h"
#include "model/model.h"

namespace chimere::engine {

/// Lets each decoding request choose its drafts; requests that draft with the MTP head share the
/// calls of Model::draft(). `max_rows`: draft rows over all requests. Records the cost of model
/// drafts in `statistics`. If Model::draft() fails there are no drafts: the step that follows
/// reports the error.
void propose_drafts(model::Model& model, std::span<const std::unique_ptr<Generation>> running,
                    int64_t max_rows, DraftStatistics& statistics);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFT_ROUND_H_
