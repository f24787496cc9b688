// Runs a model on a card if the settings and the card's memory allow it.
#ifndef CHIMERE_APPS_CHIMERE_CARD_H_
#define CHIMERE_APPS_CHIMERE_CARD_H_

#include <cstdint>

#include "base/result.h"
#include "base/settings.h"
#include "loaded_model.h"
#include "model/device_plan.h"
#include "model/model.h"

namespace chimere::app {

/// What the loaded model takes of a card.
model::DevicePlan plan_for_card(const LoadedModel& loaded, const model::ModelOptions& options,
                                int64_t least_states);

/// `loaded` has its model on the CPU. With --backend cuda or auto, and a card that the model fits
/// on, it has it on the card afterwards. Errors, with --backend cuda: kUnsupported (no card),
/// kOutOfMemory (naming settings that would fit), kIo. With auto the model stays where it is, and a
/// line on standard error says so where there is a card. `least_states`: recurrent states without
/// which the command cannot work. `step_rows`: of a step; 0: the most of
/// LoadedModel::kCardStepRows whose work memory fits and is a small part of the card's.
Status move_to_card(const Settings& settings, model::ModelOptions options, int64_t least_states,
                    int step_rows, LoadedModel& loaded);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CARD_H_
