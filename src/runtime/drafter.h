// The drafter that --draft-model names.
#ifndef CHIMERE_RUNTIME_DRAFTER_H_
#define CHIMERE_RUNTIME_DRAFTER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/settings.h"
#include "kernels/cuda/device/device.h"
#include "runtime/load_observer.h"
#include "runtime/loaded_drafter.h"
#include "runtime/loaded_model.h"

namespace chimere::runtime {

/// Loads the drafter of the settings on the CPU, for a target whose options are set and whose model
/// need not be loaded yet; nullptr if they name none, or, with a warning, if --speculate does not
/// use it. One that fits another model only is left out with a warning, unless --speculate asks for
/// it. Its keys and values take at most an eighth of the target's max_state_bytes. Errors:
/// kInvalidArgument (--speculate dflash without --draft-model), those of find_drafter(),
/// gguf::Reader::open() and model::load_block_drafter().
Result<std::unique_ptr<LoadedDrafter>> load_drafter(const Settings& settings,
                                                    const LoadedModel& target,
                                                    const LoadObserver& observer);

/// Bytes that its keys and values may come to take, of `slots` sequences at most.
int64_t drafter_state_bytes(const LoadedDrafter& drafter, int64_t slots);

/// What users and clients are told of a drafter.
struct DrafterFacts {
  std::string name;        ///< of its file, without the extension
  int64_t bytes = 0;       ///< of its file
  int32_t block_size = 0;  ///< rows of a block
};
DrafterFacts drafter_facts(const LoadedDrafter& drafter);
/// "Drafting with mini-dflash: 4.01 MB, blocks of 16 tokens, on the CPU"; with --speculate auto,
/// which may not use it, "Drafter mini-dflash: ...". `device`: "the CPU".
std::string drafter_text(const LoadedDrafter& drafter, const Settings& settings,
                         const std::string& device);

/// Bytes that the target's drafter will take on a GPU, in steps of `step_rows` rows at most.
int64_t drafter_gpu_bytes(const LoadedModel& target, int step_rows);

/// The target's drafter on a GPU; its file stays where it is. Errors: those of make_cuda_ops() and
/// model::load_block_drafter().
Result<LoadedDrafter> load_drafter_on_gpu(const LoadedModel& target, int step_rows,
                                          kernels::cuda::Device& gpu);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_DRAFTER_H_
