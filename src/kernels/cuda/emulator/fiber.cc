#include "kernels/cuda/emulator/fiber.h"

#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define CHIMERE_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHIMERE_FIBER_ASAN 1
#endif
#endif
#ifdef CHIMERE_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace chimere::kernels::cuda::emulator {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

Fiber* running = nullptr;

/// A suspended stack; the callee-saved registers are stored on it.
struct Place {
  void* stack_pointer = nullptr;
};

}  // namespace

#if defined(__x86_64__)

// Saves only the callee-saved registers of the System V ABI. swapcontext would also save the signal
// mask, which costs a system call for each of the millions of switches of a test.
extern "C" void chimere_switch_stack(void** save, void* load);
asm(R"(
  .text
  .p2align 4
  .globl chimere_switch_stack
  .type chimere_switch_stack, @function
chimere_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size chimere_switch_stack, .-chimere_switch_stack
)");

struct Fiber::Machine {
  std::unique_ptr<uint8_t[]> stack = std::make_unique_for_overwrite<uint8_t[]>(kStackBytes);
  Place fiber;
  Place host;

  static void enter() { Fiber::run(running); }
  void prepare() {
    auto* top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack.get()) + kStackBytes) &
                                         ~uintptr_t{15});
    *--top = nullptr;  // enter() never returns; the null return address also aligns the stack
    *--top = reinterpret_cast<void*>(&enter);
    for (int saved_register = 0; saved_register < 6; ++saved_register) *--top = nullptr;
    fiber.stack_pointer = top;
  }
  void to_fiber() { chimere_switch_stack(&host.stack_pointer, fiber.stack_pointer); }
  void to_host() { chimere_switch_stack(&fiber.stack_pointer, host.stack_pointer); }
};

#else

struct Fiber::Machine {
  std::unique_ptr<uint8_t[]> stack = std::make_unique_for_overwrite<uint8_t[]>(kStackBytes);
  ucontext_t fiber;
  ucontext_t host;

  static void enter() { Fiber::run(running); }
  void prepare() {
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = stack.get();
    fiber.uc_stack.ss_size = kStackBytes;
    fiber.uc_link = nullptr;
    makecontext(&fiber, &enter, 0);
  }
  void to_fiber() { swapcontext(&host, &fiber); }
  void to_host() { swapcontext(&fiber, &host); }
};

#endif

Fiber::Fiber() : machine_(std::make_unique<Machine>()) {}
Fiber::~Fiber() = default;

void Fiber::start(Body body, void* context) {
  body_ = body;
  context_ = context;
  ended_ = false;
  machine_->prepare();
}

#ifdef CHIMERE_FIBER_ASAN

namespace {
const void* host_stack = nullptr;
size_t host_stack_bytes = 0;
}  // namespace

bool Fiber::resume() {
  running = this;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, machine_->stack.get(), kStackBytes);
  machine_->to_fiber();
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  running = nullptr;
  return ended_;
}

void Fiber::pause() {
  Fiber* const self = running;
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(self->ended_ ? nullptr : &fake_stack, host_stack,
                                 host_stack_bytes);
  self->machine_->to_host();
  __sanitizer_finish_switch_fiber(fake_stack, &host_stack, &host_stack_bytes);
}

void Fiber::run(Fiber* fiber) {
  __sanitizer_finish_switch_fiber(nullptr, &host_stack, &host_stack_bytes);
  fiber->body_(fiber->context_);
  fiber->ended_ = true;
  pause();
}

#else

bool Fiber::resume() {
  running = this;
  machine_->to_fiber();
  running = nullptr;
  return ended_;
}

void Fiber::pause() { running->machine_->to_host(); }

void Fiber::run(Fiber* fiber) {
  fiber->body_(fiber->context_);
  fiber->ended_ = true;
  pause();
}

#endif

}  // namespace chimere::kernels::cuda::emulator
