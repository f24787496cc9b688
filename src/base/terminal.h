// The terminal on standard input: its modes, its size, what it can show.
#ifndef CHIMERE_BASE_TERMINAL_H_
#define CHIMERE_BASE_TERMINAL_H_

#include <string>
#include <string_view>

#include "base/system.h"

namespace chimere {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
  bool operator==(const TerminalSize&) const = default;
};
/// The size of the terminal on this stream; 80 by 24 if it is none or does not say.
TerminalSize terminal_size(StandardStream stream);

/// Whether the stream is a terminal that understands control sequences ($TERM is set and not
/// "dumb").
bool has_control_sequences(StandardStream stream);
/// The same, and the user wants colours ($NO_COLOR is unset or empty, see no-color.org).
bool has_colours(StandardStream stream);

/// $VISUAL, else $EDITOR, else "vi": a command of the shell.
std::string editor_command();

/// Holds the terminal on standard input in a mode during its lifetime. At most one object exists at
/// a time. SIGTERM and SIGHUP restore the terminal before they end the process.
class TerminalMode {
 public:
  enum class Kind {
    kKeys,    ///< every byte arrives as it is typed, Ctrl-C and Ctrl-Z included; no echo
    kSilent,  ///< no echo, typed bytes wait to be read; Ctrl-C raises SIGINT
  };
  explicit TerminalMode(Kind kind);
  ~TerminalMode();
  TerminalMode(const TerminalMode&) = delete;
  TerminalMode& operator=(const TerminalMode&) = delete;

  /// Stops the process until the shell continues it, with the terminal restored meanwhile.
  void suspend();

 private:
  void enter() const;

  Kind kind_;
};

/// Restores the terminal's mode and ends colours and bracketed paste, if a TerminalMode exists or
/// existed. Async-signal-safe: a signal handler calls it before it ends the process.
void restore_terminal();

/// Bytes typed on standard input.
struct TypedBytes {
  std::string bytes;   ///< empty: none arrived in time
  bool ended = false;  ///< the terminal is gone
};
/// Waits for bytes at most so long; returns those that are there. A signal ends the wait.
TypedBytes read_typed(int milliseconds);

/// Writes all bytes to standard error at once, past the stream's buffer.
void write_to_terminal(std::string_view bytes);

}  // namespace chimere

#endif  // CHIMERE_BASE_TERMINAL_H_
