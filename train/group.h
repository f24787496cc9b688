// Data-parallel training: processes with a device each that share the windows of every step.
#ifndef CHIMERE_TRAIN_GROUP_H_
#define CHIMERE_TRAIN_GROUP_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace chimere::train {

/// A member's view of the group. All members make the same calls in the same order; each waits for
/// the others (on a GPU the device does, not the caller).
class Group {
 public:
  virtual ~Group() = default;
  virtual int64_t rank() const = 0;  ///< 0 .. size() - 1; member 0 writes files and reports
  virtual int64_t size() const = 0;
  /// All-reduce: contiguous f32 tensors of one shape become their sum.
  virtual void sum(torch::Tensor& values) = 0;
  /// Broadcast: the values of all members become member 0's.
  virtual void share(torch::Tensor& values) = 0;
};

/// Forks this process into `size` members and joins their GPUs by NCCL: member i has device i.
/// Must be called before any use of a GPU. The others exit with member 0, and it exits with the
/// first of them that fails. Errors: kUnsupported (built without CUDA, no NCCL in this libtorch),
/// kIo.
Result<std::unique_ptr<Group>> fork_group(int64_t size);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_GROUP_H_
