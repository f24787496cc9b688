#include "external_editor.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/file_stream.h"
#include "base/terminal.h"
#include "command.h"
#include "runtime/state_folder.h"

namespace chimere::app {
namespace {

namespace fs = std::filesystem;

std::string word_of_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

Result<std::string> edit_in_editor(const std::string& text, const Settings& settings) {
  std::error_code error;
  std::string folder = runtime::state_folder(settings);
  if (folder.empty()) folder = fs::temp_directory_path(error).string();
  fs::create_directories(folder, error);
  const std::string path = folder + "/question.md";
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path));
  CHIMERE_CHECK_OK(
      file.write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size())));
  CHIMERE_CHECK_OK(file.commit());
  const std::string command = editor_command();
  // $EDITOR is a command of the shell: it may have flags.
  const int status = std::system((command + " " + word_of_shell(path)).c_str());
  auto edited = read_file(path);
  fs::remove(path, error);
  if (status != 0) {
    return io_error("The editor '" + command +
                    "' failed; set $EDITOR to one that exists, and save before leaving it.");
  }
  return edited;
}

}  // namespace chimere::app
