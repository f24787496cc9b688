// Programs run as child processes, with limits.
#ifndef CHIMERE_BASE_CHILD_PROCESS_H_
#define CHIMERE_BASE_CHILD_PROCESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere {

/// The path of an executable in the folders of PATH, or `name` itself if it has a slash and is one;
/// empty: there is none.
std::string find_program(const std::string& name);

struct ChildCommand {
  std::vector<std::string> words = {};  ///< the program (as of find_program()) and its arguments
  /// "NAME=value"; nothing else is inherited.
  std::vector<std::string> environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
                                          "HOME=/nonexistent"};
  int64_t memory_bytes = 0;    ///< of address space; 0: no limit
  int64_t cpu_seconds = 0;     ///< 0: no limit
  bool may_write = true;       ///< false: files that it writes stay empty
  bool discard_errors = true;  ///< standard error goes to /dev/null, else where this process's goes
};

/// A running child with pipes to its standard input and output. It leads a process group of its
/// own, all of which ends with this object, or with the thread that started it. Not thread-safe.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// Errors: kNotFound (no such program), kIo.
  static Result<ChildProcess> start(const ChildCommand& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Errors: kCancelled (the deadline has passed), kIo (the child reads no more).
  Status write(std::string_view bytes, Clock::time_point deadline);
  /// The next line without its end; absent: the output has ended. Errors: kCancelled (the deadline
  /// has passed), kInvalidData (a line of more than `most` bytes), kIo.
  Result<std::optional<std::string>> read_line(size_t most, Clock::time_point deadline);
  /// No more input.
  void close_input();

 private:
  friend Result<struct ChildOutput> run_child(const ChildCommand& command, std::string_view input,
                                              std::chrono::milliseconds limit, size_t most);
  ChildProcess() = default;
  void kill_all();
  /// Ends the child if it still runs; its exit code, or 128 and the number of the signal.
  int wait();

  int pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string unread_;
};

struct ChildOutput {
  int code = 0;  ///< exit code, or 128 and the number of the signal that ended it
  std::string text;
  bool timed_out = false;
  bool truncated = false;  ///< it wrote more than `most` bytes, and was ended
};

/// Runs a program to its end. `most`: bytes of its output. Errors: those of ChildProcess::start().
Result<ChildOutput> run_child(const ChildCommand& command, std::string_view input,
                              std::chrono::milliseconds limit, size_t most);

}  // namespace chimere

#endif  // CHIMERE_BASE_CHILD_PROCESS_H_
