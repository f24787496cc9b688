#include "constraints/machine.h"

namespace chimere::constraints {

Machine::~Machine() = default;

}  // namespace chimere::constraints
