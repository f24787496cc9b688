// Runs a model on a GPU if the settings and the GPU's memory allow it.
#ifndef CHIMERE_APPS_CHIMERE_GPU_H_
#define CHIMERE_APPS_CHIMERE_GPU_H_

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
/// The first GPU, under that profile. Errors: those of kernels::cuda::open_cuda_device().
Result<std::unique_ptr<kernels::cuda::Device>> open_cuda_device(const Settings& settings);
/// Its name, with the profile if that is not its own.
std::string gpu_name(const kernels::cuda::DeviceFacts& facts);

/// "15.90 GB of weights copied in 3.2 s, 4.97 GB/s"
std::string upload_text(const Upload& upload);

/// Bytes that this process may take of the card. Errors: kInvalidArgument, kIo.
Result<int64_t> vram_budget(const Settings& settings, kernels::cuda::Device& gpu);
/// The same for --vram-budget alone, less what the driver usually takes of it. Errors:
/// kInvalidArgument.
Result<int64_t> vram_budget_without_gpu(const Settings& settings);

struct GpuPlan {
  model::DevicePlan plan;
  int step_rows = 0;
  bool drafts = false;  ///< the MTP head is on the GPU
};
/// What the loaded model takes of a GPU, with experts in the computer's memory as --cpu-experts
/// says, and the most rows of a step. `step_rows` 0: the most of LoadedModel::kGpuStepRows whose
/// work memory fits, is a small part of the GPU's and sends no experts away. With --speculate auto
/// the MTP head goes to the GPU unless the model would not fit then or send experts away.
/// Errors: kInvalidArgument.
Result<GpuPlan> plan_for_gpu(const Settings& settings, const LoadedModel& loaded, int step_rows,
                             int64_t allowed);

/// `loaded` has its model on the CPU. With --backend cuda or auto, and a GPU that the model fits
/// on, it has it on the GPU afterwards. Errors, with --backend cuda: kUnsupported (no GPU),
/// kOutOfMemory (naming settings that would fit), kIo. With auto the model stays where it is, and a
/// line on standard error says so where there is a card. `step_rows` as in plan_for_gpu().
Status move_to_gpu(const Settings& settings, int step_rows, LoadedModel& loaded);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_GPU_H_
