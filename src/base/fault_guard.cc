#include "base/fault_guard.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX's, not <csignal>'s
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace chimere {
namespace {

// A signal handler may take no lock, so the watched mappings are a table of atomics. `end` is 0 for
// a free slot, and is set last.
struct Slot {
  std::atomic<bool> taken = false;
  std::atomic<bool> damaged = false;
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
};

struct Watch {
  Slot slots[FaultGuard::kMax];
  uintptr_t page = 4096;
  struct sigaction before {};
};

Watch& watch() {
  static Watch w;
  return w;
}

/// Maps zeros over everything from the page of `address` on: past a truncation nothing else can be
/// read either, and one call is cheaper than a fault per page.
bool replace_rest(Slot& slot, uintptr_t address) {
  const uintptr_t from = address & ~(watch().page - 1);
  const uintptr_t end = slot.end.load(std::memory_order_relaxed);
  // A raw system call, because the thread sanitizer replaces mmap() by code that must not run in a
  // signal handler, and reports it as a write that races with other threads' reads.
  const auto zeros = syscall(SYS_mmap, from, end - from, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (zeros == -1) return false;
  slot.damaged.store(true, std::memory_order_release);
  return true;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = watch().before;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    return before.sa_handler(signal);
  }
  // The read is retried when this returns, and ends the process as it would without a guard.
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  sigaction(signal, &default_action, nullptr);
  if (info->si_code <= 0) raise(signal);  // sent by a process, not by a read
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool is_fault = info->si_code > 0;
  for (Slot& slot : watch().slots) {
    if (!is_fault) break;
    const uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address >= end || address < slot.begin.load(std::memory_order_relaxed)) continue;
    if (replace_rest(slot, address)) {
      errno = saved_errno;
      return;
    }
  }
  pass_on(signal, info, context);
}

bool install() {
  watch().page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &watch().before) == 0;
}

}  // namespace

FaultGuard::FaultGuard(FaultGuard&& other) noexcept { std::swap(slot_, other.slot_); }

FaultGuard& FaultGuard::operator=(FaultGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

bool FaultGuard::start(const void* begin, size_t bytes) {
  static const bool installed = install();
  stop();
  for (int i = 0; installed && i < kMax; ++i) {
    Slot& slot = watch().slots[i];
    if (slot.taken.exchange(true, std::memory_order_acquire)) continue;
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const uintptr_t page = watch().page;
    slot.damaged.store(false, std::memory_order_relaxed);
    slot.begin.store(address, std::memory_order_relaxed);
    slot.end.store(address + (bytes + page - 1) / page * page, std::memory_order_release);
    slot_ = i;
    return true;
  }
  return false;
}

void FaultGuard::stop() {
  if (slot_ < 0) return;
  Slot& slot = watch().slots[std::exchange(slot_, -1)];
  slot.end.store(0, std::memory_order_relaxed);
  slot.taken.store(false, std::memory_order_release);
}

bool FaultGuard::damaged() const {
  return slot_ >= 0 && watch().slots[slot_].damaged.load(std::memory_order_acquire);
}

}  // namespace chimere
