// Programs shut in by bubblewrap (https://github.com/containers/bubblewrap): no network, no files
// but the system's programs and libraries, read-only, and 16 MiB for temporary ones.
#ifndef CHIMERE_BASE_SANDBOX_H_
#define CHIMERE_BASE_SANDBOX_H_

#include <string>

#include "base/child_process.h"
#include "base/result.h"

namespace chimere {

/// The path of a program that exists inside of the sandbox; empty: there is none.
std::string find_system_program(const std::string& name);

/// The command inside of the sandbox. Its program is looked up here, its limits stay. Errors:
/// kNotFound (no such program), kUnsupported (bubblewrap is not installed, or the system lets it
/// make no sandbox: found out once).
Result<ChildCommand> sandboxed(ChildCommand command);

}  // namespace chimere

#endif  // CHIMERE_BASE_SANDBOX_H_
