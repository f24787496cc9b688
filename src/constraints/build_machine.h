// From a specification to the machine that reads its texts.
#ifndef CHIMERE_CONSTRAINTS_BUILD_MACHINE_H_
#define CHIMERE_CONSTRAINTS_BUILD_MACHINE_H_

#include <memory>

#include "base/result.h"
#include "constraints/constraint.h"
#include "constraints/machine.h"
#include "constraints/token_trie.h"

namespace chimere::constraints {

/// Errors: those of Constraint::compile().
Result<std::unique_ptr<Machine>> build_machine(const ConstraintSpec& spec, const TokenTrie& trie);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_BUILD_MACHINE_H_
