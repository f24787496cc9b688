// Stacks that a thread of the host switches between.
#ifndef CHIMERE_KERNELS_CUDA_EMULATOR_FIBER_H_
#define CHIMERE_KERNELS_CUDA_EMULATOR_FIBER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace chimere::kernels::cuda::emulator {

/// Runs a function on a stack of its own, a piece at a time. The function must come to its end:
/// what is left on the stack of a fiber that is destroyed earlier is not unwound.
class Fiber {
 public:
  using Body = void (*)(void* context);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From the next resume() on, runs body(context) from its start.
  void start(Body body, void* context);
  /// Runs the fiber until it calls pause() or ends; true if it has ended. Not from within a fiber.
  bool resume();
  /// Returns to the resume() of the running fiber.
  static void pause();

 private:
  struct Machine;
  static void run(Fiber* fiber);

  std::unique_ptr<Machine> machine_;
  Body body_ = nullptr;
  void* context_ = nullptr;
  bool ended_ = true;
};

}  // namespace chimere::kernels::cuda::emulator

#endif  // CHIMERE_KERNELS_CUDA_EMULATOR_FIBER_H_
