#include "interrupt.h"

#include <csignal>
#include <cstdlib>

#include "base/terminal.h"

namespace chimere::app {
namespace {

volatile std::sig_atomic_t interrupts = 0;
int scopes = 0;

void count(int) {
  interrupts = interrupts + 1;
  if (interrupts < 2) return;
  restore_terminal();
  std::_Exit(130);
}

}  // namespace

InterruptScope::InterruptScope() {
  if (scopes++ > 0) return;
  interrupts = 0;
  previous_ = std::signal(SIGINT, count);
}

InterruptScope::~InterruptScope() {
  if (--scopes == 0) (void)std::signal(SIGINT, previous_);
}

bool InterruptScope::interrupted() const { return interrupts > 0; }

void InterruptScope::interrupt() { interrupts = 1; }

void InterruptScope::reset() { interrupts = 0; }

}  // namespace chimere::app
