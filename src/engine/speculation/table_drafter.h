// Drafts of the n-gram tables of a request.
#ifndef CHIMERE_ENGINE_SPECULATION_TABLE_DRAFTER_H_
#define CHIMERE_ENGINE_SPECULATION_TABLE_DRAFTER_H_

#include "engine/speculation/drafter.h"

namespace chimere::engine {

extern const DrafterType kTableDrafter;

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_TABLE_DRAFTER_H_
