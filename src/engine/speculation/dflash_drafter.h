// The block drafter: a model of its own that reads the target's hidden states (DFlash).
#ifndef CHIMERE_ENGINE_SPECULATION_DFLASH_DRAFTER_H_
#define CHIMERE_ENGINE_SPECULATION_DFLASH_DRAFTER_H_

#include "engine/speculation/drafter.h"

namespace chimere::engine {

/// Needs DrafterModels::draft, a model with Model::block_draft().
extern const DrafterType kDflashDrafter;

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DFLASH_DRAFTER_H_
