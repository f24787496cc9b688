// Compares the kernels of a GPU with f32 arithmetic on the CPU.
#ifndef CHIMERE_TRAIN_COMPARE_H_
#define CHIMERE_TRAIN_COMPARE_H_

#include <torch/torch.h>

#include "config.h"

namespace chimere::train {

/// Prints, for the loss and the gradient of each parameter, the error of a step on the device in
/// `compute` relative to one on the CPU in f32 (norm of the difference over the norm). With bf16
/// and random weights, errors are some 1e-2.
void compare_devices(ModelConfig config, torch::Device device, torch::Dtype compute);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_COMPARE_H_
