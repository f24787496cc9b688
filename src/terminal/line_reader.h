// Reads lines from the terminal on standard input with an editor. Prompts and what is typed appear
// on standard error.
#ifndef CHIMERE_TERMINAL_LINE_READER_H_
#define CHIMERE_TERMINAL_LINE_READER_H_

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "terminal/editor.h"
#include "terminal/history.h"
#include "terminal/key_decoder.h"

namespace chimere::terminal {

class LineReader {
 public:
  struct Options {
    /// Called when a text is complete, while Ctrl-C is still a key.
    std::function<void()> completed = {};
    Completer completer = {};
    /// Edits a text in another program (Ctrl-X Ctrl-E); absent: it was not changed. The terminal is
    /// in its usual mode meanwhile.
    std::function<std::optional<std::string>(const std::string& text)> open_editor = {};
    bool colours = false;
  };

  /// Both streams must be terminals with control sequences (base/terminal.h). The history must
  /// outlive the reader.
  LineReader(const History& history, Options options);

  /// Reads one text of one or more lines; absent: the user leaves, or the terminal is gone. Keys
  /// that follow the text wait for the next call.
  std::optional<std::string> read(const std::string& prompt, std::string_view initial = "");

  /// Whether Ctrl-C was typed behind the last text while it was still a key, and was not read as
  /// one: it is meant for what follows the text. Keys before it are dropped. The terminal must be
  /// in the mode TerminalMode::Kind::kSilent.
  bool take_interrupt();

 private:
  Options options_;
  Editor editor_;
  KeyDecoder decoder_;
  std::deque<KeyEvent> keys_;
};

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_LINE_READER_H_
