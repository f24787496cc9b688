#include "base/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace chimere {
namespace {

termios original_mode = {};
volatile std::sig_atomic_t mode_is_known = 0;
struct sigaction previous_term = {};
struct sigaction previous_hangup = {};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void write_all(int descriptor, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the terminal is gone
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

/// A signal interrupts the wait for output (TCSADRAIN) and the mode is not set: it is tried again.
void set_mode(const termios& mode, int when) {
  while (tcsetattr(STDIN_FILENO, when, &mode) != 0 && errno == EINTR) {
  }
}

/// Restores the terminal, then ends the process as the signal would have.
void end_by_signal(int signal) {
  restore_terminal();
  (void)std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

void install(int signal, struct sigaction& previous) {
  struct sigaction action = {};
  action.sa_handler = end_by_signal;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, nullptr, &previous) != 0) return;
  // A signal that the parent told us to ignore (nohup) stays ignored.
  if (previous.sa_handler != SIG_IGN) (void)sigaction(signal, &action, nullptr);
}

}  // namespace

TerminalSize terminal_size(StandardStream stream) {
  winsize size = {};
  TerminalSize out;
  if (ioctl(static_cast<int>(stream), TIOCGWINSZ, &size) != 0) return out;
  if (size.ws_col > 0) out.columns = size.ws_col;
  if (size.ws_row > 0) out.rows = size.ws_row;
  return out;
}

bool has_control_sequences(StandardStream stream) {
  const std::string terminal = variable("TERM");
  return is_terminal(stream) && !terminal.empty() && terminal != "dumb";
}

bool has_colours(StandardStream stream) {
  return has_control_sequences(stream) && variable("NO_COLOR").empty();
}

std::string editor_command() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    std::string command = variable(name);
    if (!command.empty()) return command;
  }
  return "vi";
}

TerminalMode::TerminalMode(Kind kind) : kind_(kind) {
  if (tcgetattr(STDIN_FILENO, &original_mode) != 0) return;
  mode_is_known = 1;
  install(SIGTERM, previous_term);
  install(SIGHUP, previous_hangup);
  enter();
}

void TerminalMode::enter() const {
  termios mode = original_mode;
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  if (kind_ == Kind::kKeys) {
    mode.c_lflag &= ~static_cast<tcflag_t>(ISIG | IEXTEN);
    mode.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON | ISTRIP | BRKINT);
  }
  // TCSADRAIN keeps what was typed ahead.
  set_mode(mode, TCSADRAIN);
}

TerminalMode::~TerminalMode() {
  if (mode_is_known == 0) return;
  set_mode(original_mode, TCSADRAIN);
  (void)sigaction(SIGTERM, &previous_term, nullptr);
  (void)sigaction(SIGHUP, &previous_hangup, nullptr);
}

void TerminalMode::suspend() {
  restore_terminal();
  (void)std::raise(SIGTSTP);
  enter();
}

void restore_terminal() {
  if (mode_is_known == 0) return;
  constexpr std::string_view kReset = "\x1b[0m\x1b[?25h\x1b[?2004l";
  write_all(STDERR_FILENO, kReset.data(), kReset.size());
  set_mode(original_mode, TCSANOW);
}

TypedBytes read_typed(int milliseconds) {
  pollfd waited = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (poll(&waited, 1, milliseconds) <= 0) return {};
  std::array<char, 1 << 16> buffer{};
  const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
  if (count < 0) return {.bytes = "", .ended = errno != EINTR && errno != EAGAIN};
  return {.bytes = std::string(buffer.data(), static_cast<size_t>(count)), .ended = count == 0};
}

void write_to_terminal(std::string_view bytes) {
  write_all(STDERR_FILENO, bytes.data(), bytes.size());
}

}  // namespace chimere
