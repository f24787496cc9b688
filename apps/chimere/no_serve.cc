// chimere serve and keys, in a build without the server.
#include "command.h"

namespace chimere::app {
namespace {

Status explain() {
  return unsupported(
      "This program was built without the server. `make serve`, in the folder of the sources, "
      "installs the libraries that it needs and builds a program with it.");
}

}  // namespace

const bool kWithServer = false;

void declare_serve(Command& app, CommandLine& line) {
  add_command(app, line, "serve", "Serves the OpenAI API over HTTP (not in this build)", explain)
      .allow_anything();
}

void declare_keys(Command& app, CommandLine& line) {
  add_command(app, line, "keys", "Manages the server's API keys (not in this build)", explain)
      .allow_anything();
}

}  // namespace chimere::app
