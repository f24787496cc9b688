#include "base/sandbox.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace chimere {
namespace {

/// bubblewrap with its arguments, up to the program.
std::vector<std::string> bubblewrap_words() {
  std::vector<std::string> words = {"bwrap"};
  // System folders that exist, whether they are folders or links into /usr.
  for (const char* folder : {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/etc/fonts",
                             "/etc/alternatives", "/etc/ld.so.cache"}) {
    if (access(folder, R_OK) == 0) words.insert(words.end(), {"--ro-bind", folder, folder});
  }
  words.insert(words.end(),
               {"--dev", "/dev", "--remount-ro", "/dev", "--size", "16777216", "--tmpfs", "/tmp",
                "--remount-ro", "/", "--chdir", "/tmp", "--unshare-all", "--unshare-user",
                "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--"});
  return words;
}

/// Why there can be no sandbox here; empty: there can.
const std::string& no_sandbox() {
  static const std::string kWhy = [] {
    if (find_program("bwrap").empty()) {
      return std::string("bubblewrap (the program bwrap) is not installed.");
    }
    ChildCommand trial;
    trial.words = bubblewrap_words();
    trial.words.push_back(find_system_program("true"));
    const auto done = run_child(trial, "", std::chrono::minutes(1), 1000);
    return done.ok() && done->code == 0 ? std::string()
                                        : std::string(
                                              "This system lets bubblewrap make no "
                                              "sandbox (user namespaces are off).");
  }();
  return kWhy;
}

}  // namespace

std::string find_system_program(const std::string& name) {
  for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    if (std::string path = find_program(folder + name); !path.empty()) return path;
  }
  return "";
}

Result<ChildCommand> sandboxed(ChildCommand command) {
  if (command.words.empty()) return invalid_argument("A command has no words.");
  const std::string program = find_system_program(command.words[0]);
  if (program.empty()) return not_found("There is no program '" + command.words[0] + "'.");
  if (!no_sandbox().empty()) return unsupported(no_sandbox());
  std::vector<std::string> words = bubblewrap_words();
  words.push_back(program);
  words.insert(words.end(), command.words.begin() + 1, command.words.end());
  command.words = std::move(words);
  return command;
}

}  // namespace chimere
