// Drafts of the model's MTP head.
#ifndef CHIMERE_ENGINE_SPECULATION_MTP_DRAFTER_H_
#define CHIMERE_ENGINE_SPECULATION_MTP_DRAFTER_H_

#include "engine/speculation/drafter.h"

namespace chimere::engine {

extern const DrafterType kMtpDrafter;

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_MTP_DRAFTER_H_
