// Prompt lookup: drafts from repetitions in prompt and generation.
#ifndef CHIMERE_ENGINE_SPECULATION_LOOKUP_DRAFTER_H_
#define CHIMERE_ENGINE_SPECULATION_LOOKUP_DRAFTER_H_

#include "engine/speculation/drafter.h"

namespace chimere::engine {

extern const DrafterType kLookupDrafter;

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_LOOKUP_DRAFTER_H_
