// The drafts of all decoding requests, before a step is planned.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFT_ROUND_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFT_ROUND_H_

#include <cstdint>
#include <memory>
#include <span>

#include "engine/generation.h"
#include "engine/speculation/draft_statistics.h"
#include "model/model.h"

namespace chimere::engine {

/// Lets every running request that is decoding decide on its drafts; those that want some of the
/// model share the calls of Model::draft(). `max_rows`: of drafts, over all requests. What a draft
/// of the model costs goes into `lessons`. When the model cannot draft there are none: the step
/// that follows will say what is wrong.
void propose_drafts(model::Model& model, std::span<const std::unique_ptr<Generation>> running,
                    int64_t max_rows, DraftStatistics& statistics);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFT_ROUND_H_
