// chimere ask, mcp and odo, in a build without server or orchestrator.
#include "command.h"

namespace chimere::app {
namespace {

Status explain_ask() {
  return unsupported(
      "This program was built without the orchestrator. `make serve`, in the folder of the "
      "sources, installs the libraries that it needs and builds a program with it.");
}

}  // namespace

void declare_ask(Command& app, CommandLine& line) {
  add_command(app, line, "ask", "Answers a question from documents (not in this build)",
              explain_ask)
      .allow_anything();
}

void declare_odo(Command& app, CommandLine& line) {
  add_command(app, line, "odo", "Improves the answers of another server (not in this build)",
              explain_ask)
      .allow_anything();
}

void declare_mcp(Command& app, CommandLine& line) {
  add_command(app, line, "mcp", "Offers collections to other programs as tools (not in this build)",
              explain_ask)
      .allow_anything();
}

}  // namespace chimere::app
