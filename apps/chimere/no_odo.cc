// chimere collection, in a build without collections and orchestrator.
#include "command.h"

namespace chimere::app {
namespace {

Status explain_odo() {
  return unsupported(
      "This program was built without collections. `make serve`, in the folder of the sources, "
      "installs the libraries that they need and builds a program with them.");
}

}  // namespace

void declare_collection(Command& app, CommandLine& line) {
  add_command(app, line, "collection", "Collections of documents (not in this build)", explain_odo)
      .allow_anything();
}

}  // namespace chimere::app
