// Fibers: stacks that one host thread switches between.
#ifndef CHIMERE_KERNELS_CUDA_EMULATOR_FIBER_H_
#define CHIMERE_KERNELS_CUDA_EMULATOR_FIBER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace chimere::kernels::cuda::emulator {

/// Runs a function on its own stack, with pauses. The function must return before the fiber is
/// destroyed: a destroyed fiber's stack is not unwound.
class Fiber {
 public:
  using Body = void (*)(void* context);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next resume() runs body(context) from its start.
  void start(Body body, void* context);
  /// Runs the fiber until it calls pause() or returns; true if it returned. Not from within a
  /// fiber.
  bool resume();
  /// Returns from the running fiber to its resume().
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
