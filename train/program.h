// Shared by the main functions of the training programs.
#ifndef CHIMERE_TRAIN_PROGRAM_H_
#define CHIMERE_TRAIN_PROGRAM_H_

#include <torch/torch.h>

#include <cstdio>
#include <exception>

#include "base/result.h"

namespace chimere::train {

inline torch::Device best_device() {
  return torch::cuda::is_available() ? torch::Device(torch::kCUDA) : torch::Device(torch::kCPU);
}

/// Runs dispatch(argc, argv) and prints its error. Returns the exit status.
template <typename Dispatch>
int run_program(int argc, char** argv, Dispatch dispatch) {
  try {
    const Status status = dispatch(argc, argv);
    if (status.ok()) return 0;
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
  } catch (const std::exception& e) {
    // libtorch reports its own errors, such as no memory, by exceptions.
    std::fprintf(stderr, "libtorch: %s\n", e.what());
  }
  return 1;
}

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_PROGRAM_H_
