// Runs a model on a card if the settings and the card's memory allow it.
#ifndef CHIMERE_APPS_CHIMERE_CARD_H_
#define CHIMERE_APPS_CHIMERE_CARD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "kernels/cuda/device/device.h"
#include "loaded_model.h"
#include "model/device_plan.h"

namespace chimere::app {

/// The profile that --cuda-profile names.
kernels::cuda::Profile cuda_profile(const Settings& settings);
/// The first card, under that profile. Errors: those of kernels::cuda::open_card().
Result<std::unique_ptr<kernels::cuda::Device>> open_card(const Settings& settings);
/// Its name, with the profile if that is not its own.
std::string card_name(const kernels::cuda::DeviceFacts& facts);

/// "15.90 GB of weights copied in 3.2 s, 4.97 GB/s"
std::string upload_text(const Upload& upload);

/// Bytes that this process may take of the card. Errors: kInvalidArgument, kIo.
Result<int64_t> allowance(const Settings& settings, kernels::cuda::Device& card);
/// The same for --vram-budget alone, less what the driver usually takes of it. Errors:
/// kInvalidArgument.
Result<int64_t> allowance_without_card(const Settings& settings);

struct CardPlan {
  model::DevicePlan plan;
  int step_rows = 0;
  bool drafts = false;  ///< the block for drafts is on the card
};
/// What the loaded model takes of a card, with experts in the computer's memory as --cpu-experts
/// says, and the most rows of a step. `step_rows` 0: the most of LoadedModel::kCardStepRows whose
/// work memory fits, is a small part of the card's and sends no experts away. With --speculate auto
/// the block for drafts goes to the card unless the model would not fit then or send experts away.
/// Errors: kInvalidArgument.
Result<CardPlan> plan_for_card(const Settings& settings, const LoadedModel& loaded, int step_rows,
                               int64_t allowed);

/// `loaded` has its model on the CPU. With --backend cuda or auto, and a card that the model fits
/// on, it has it on the card afterwards. Errors, with --backend cuda: kUnsupported (no card),
/// kOutOfMemory (naming settings that would fit), kIo. With auto the model stays where it is, and a
/// line on standard error says so where there is a card. `step_rows` as in plan_for_card().
Status move_to_card(const Settings& settings, int step_rows, LoadedModel& loaded);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CARD_H_
