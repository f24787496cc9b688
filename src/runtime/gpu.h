// Runs a model on a GPU if the settings and the GPU's memory allow it.
#ifndef CHIMERE_RUNTIME_GPU_H_
#define CHIMERE_RUNTIME_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "kernels/cuda/device/device.h"
#include "model/device_plan.h"
#include "runtime/load_observer.h"
#include "runtime/loaded_model.h"
#include "runtime/runtime.h"

namespace chimere::runtime {

/// The profile that --cuda-profile names.
kernels::cuda::Profile cuda_profile(const Settings& settings);
/// GPU `number`, under that profile. Errors: those of kernels::cuda::open_cuda_device().
Result<std::unique_ptr<kernels::cuda::Device>> open_cuda_device(const Settings& settings,
                                                                int number = 0);
/// The GPU's name, with the profile unless it is the native one.
std::string gpu_name(const kernels::cuda::DeviceFacts& facts);

/// Seconds of an upload before its progress is worth showing.
inline constexpr double kQuietUpload = 1;

/// "15.90 GB of weights copied in 3.2 s, 4.97 GB/s"
std::string upload_text(const Upload& upload);

/// Bytes of GPU memory that this process may still allocate. Errors: kInvalidArgument, kIo.
Result<int64_t> vram_budget(const Settings& settings, kernels::cuda::Device& gpu);
/// The same without a GPU: --vram-budget minus the memory that the driver usually takes. Errors:
/// kInvalidArgument.
Result<int64_t> vram_budget_without_gpu(const Settings& settings);

struct GpuPlan {
  model::DevicePlan plan;
  int step_rows = 0;
  bool drafts = false;  ///< the MTP head is on the GPU
};
/// Plans the GPU memory of the loaded model, with experts in host memory as --cpu-experts says,
/// and the largest number of rows in a step. `allowed`: bytes. `step_rows` 0: the largest of
/// LoadedModel::kGpuStepRows whose work memory fits, is a small fraction of the budget and
/// displaces no experts. With --speculate auto the MTP head goes to the GPU unless that displaces
/// experts or makes the model too large. Errors: kInvalidArgument.
Result<GpuPlan> plan_for_gpu(const Settings& settings, const LoadedModel& loaded, int step_rows,
                             int64_t allowed);

/// The runtime's GPU with --backend cuda, or auto if there is one; otherwise nullptr. Errors:
/// kInvalidArgument (settings of a GPU's memory), and with --backend cuda kUnsupported (no GPU).
Result<std::unique_ptr<kernels::cuda::Device>> choose_gpu(const Settings& settings,
                                                          const Runtime& runtime);
/// Moves a model from the CPU to the GPU of choose_gpu(), if it fits. A drafter that does not fit
/// beside it is left out with a warning, unless --backend cuda and --speculate dflash ask for both.
/// Errors, with --backend cuda: kOutOfMemory (naming settings that would fit), kIo. With auto the
/// model stays on the CPU instead, and a warning says why. `step_rows` as in plan_for_gpu().
Status move_to_gpu(const Settings& settings, int step_rows, const Runtime& runtime,
                   const LoadObserver& observer, std::unique_ptr<kernels::cuda::Device> gpu,
                   LoadedModel& loaded);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_GPU_H_
