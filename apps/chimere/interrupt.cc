#include "interrupt.h"

#include <csignal>
#include <cstdlib>

namespace chimere::app {
namespace {

volatile std::sig_atomic_t interrupts = 0;

void count(int) {
  interrupts = interrupts + 1;
  if (interrupts > 1) std::_Exit(130);
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupts = 0;
  previous_ = std::signal(SIGINT, count);
}

InterruptScope::~InterruptScope() { (void)std::signal(SIGINT, previous_); }

bool InterruptScope::interrupted() const { return interrupts > 0; }

}  // namespace chimere::app
