#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace chimere {
namespace {

void close_descriptor(int& fd) {
  if (fd >= 0) (void)close(fd);
  fd = -1;
}

bool is_executable(const std::string& path) {
  return access(path.c_str(), X_OK) == 0 && path.find('/') != std::string::npos;
}

/// Waits until `fd` is ready for `events`; false: the deadline has passed.
bool wait_for_descriptor(int fd, short events, ChildProcess::Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - ChildProcess::Clock::now());
    if (left.count() < 0) return false;
    pollfd entry{fd, events, 0};
    constexpr int64_t kMostWait = 1'000'000;
    const int ready =
        poll(&entry, 1, static_cast<int>(std::min<int64_t>(left.count() + 1, kMostWait)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows reports it
  }
}

void limit_resource(int resource, int64_t value) {
  rlimit limit{};
  limit.rlim_cur = limit.rlim_max = static_cast<rlim_t>(value);
  (void)setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

/// What the child needs; made before fork(), after which it may allocate nothing.
struct ExecPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const ChildCommand* command = nullptr;
  int input = -1;
  int output = -1;
  int null = -1;
  int parent = 0;
};

/// In the child. Only functions that are safe after fork() in a process with threads.
[[noreturn]] void execute(const ExecPlan& plan) {
  constexpr int kFailed = 127;
  (void)setpgid(0, 0);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(kFailed);
  (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const ChildCommand& command = *plan.command;
  limit_resource(RLIMIT_CORE, 0);
  if (command.memory_bytes > 0) limit_resource(RLIMIT_AS, command.memory_bytes);
  if (command.cpu_seconds > 0) limit_resource(RLIMIT_CPU, command.cpu_seconds);
  if (!command.may_write) limit_resource(RLIMIT_FSIZE, 0);
  if (dup2(plan.input, STDIN_FILENO) < 0 || dup2(plan.output, STDOUT_FILENO) < 0) _exit(kFailed);
  if (command.discard_errors && dup2(plan.null, STDERR_FILENO) < 0) _exit(kFailed);
  (void)close_range(STDERR_FILENO + 1, ~0U, 0);  // what others have left open for their children
  // A server ignores SIGPIPE and blocks others; the child shall not.
  (void)signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)execve(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  _exit(kFailed);
}

std::vector<char*> pointers_of(const std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_executable(name) ? name : "";
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): never set here
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty() && !name.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    std::string file = std::string(folder) + "/" + name;
    if (!folder.empty() && is_executable(file)) return file;
  }
  return "";
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      unread_(std::move(other.unread_)) {}

ChildProcess::~ChildProcess() {
  kill_all();
  (void)wait();
  close_descriptor(input_);
  close_descriptor(output_);
}

void ChildProcess::kill_all() {
  if (pid_ > 0) (void)kill(-pid_, SIGKILL);
}

int ChildProcess::wait() {
  if (pid_ <= 0) return 0;
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  // What the child has started may outlive it. Its number is its group's until it is reaped.
  kill_all();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

Result<ChildProcess> ChildProcess::start(const ChildCommand& command) {
  if (command.words.empty()) return invalid_argument("A command has no words.");
  std::vector<std::string> words = command.words;
  words[0] = find_program(words[0]);
  if (words[0].empty()) {
    return not_found("There is no program '" + command.words[0] + "'.");
  }
  std::array<int, 2> to{-1, -1};
  std::array<int, 2> from{-1, -1};
  ChildProcess out;
  // A pair of sockets takes writes without SIGPIPE.
  bool made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to.data()) == 0;
  made = made && pipe2(from.data(), O_CLOEXEC) == 0;
  int null = made ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  out.input_ = to[0];
  out.output_ = from[0];
  ExecPlan plan;
  plan.arguments = pointers_of(words);
  plan.environment = pointers_of(command.environment);
  plan.command = &command;
  plan.input = to[1];
  plan.output = from[1];
  plan.null = null;
  plan.parent = getpid();
  if (made && null >= 0) out.pid_ = fork();
  if (out.pid_ == 0) execute(plan);
  if (out.pid_ > 0) (void)setpgid(out.pid_, out.pid_);  // so that both sides have done it
  close_descriptor(to[1]);
  close_descriptor(from[1]);
  close_descriptor(null);
  if (out.pid_ < 0) return io_error("The program '" + words[0] + "' cannot be started.");
  (void)fcntl(out.output_, F_SETFL, O_NONBLOCK);
  (void)fcntl(out.input_, F_SETFL, O_NONBLOCK);
  return out;
}

Status ChildProcess::write(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t n = send(input_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!wait_for_descriptor(input_, POLLOUT, deadline)) {
        return Error{Error::Code::kCancelled, "The program did not read its input in time."};
      }
    } else {
      return io_error("The program has ended or reads no more.");
    }
  }
  return {};
}

void ChildProcess::close_input() {
  if (input_ >= 0) (void)shutdown(input_, SHUT_WR);
}

Result<std::optional<std::string>> ChildProcess::read_line(size_t most,
                                                           Clock::time_point deadline) {
  size_t searched = 0;
  while (true) {
    const size_t end = unread_.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return std::optional(std::move(line));
    }
    searched = unread_.size();
    if (unread_.size() > most) return invalid_data("The program wrote a line that is too long.");
    std::array<char, 65536> buffer{};
    const ssize_t n = read(output_, buffer.data(), buffer.size());
    if (n > 0) {
      unread_.append(buffer.data(), static_cast<size_t>(n));
    } else if (n == 0) {
      return std::optional<std::string>();
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!wait_for_descriptor(output_, POLLIN, deadline)) {
        return Error{Error::Code::kCancelled, "The program did not answer in time."};
      }
    } else {
      return io_error("The program's output cannot be read.");
    }
  }
}

Result<ChildOutput> run_child(const ChildCommand& command, std::string_view input,
                              std::chrono::milliseconds limit, size_t most) {
  CHIMERE_TRY(ChildProcess child, ChildProcess::start(command));
  const auto deadline = ChildProcess::Clock::now() + limit;
  ChildOutput out;
  std::array<char, 65536> buffer{};
  while (true) {
    if (input.empty()) child.close_input();
    std::array<pollfd, 2> entries{{{child.output_, POLLIN, 0}, {child.input_, POLLOUT, 0}}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - ChildProcess::Clock::now());
    if (left.count() < 0) {
      out.timed_out = true;
      break;
    }
    if (poll(entries.data(), input.empty() ? 1 : 2, static_cast<int>(left.count()) + 1) <= 0) {
      continue;
    }
    if (!input.empty() && entries[1].revents != 0) {
      const ssize_t n = send(child.input_, input.data(), input.size(), MSG_NOSIGNAL);
      if (n > 0) input.remove_prefix(static_cast<size_t>(n));
      if (n < 0 && errno != EAGAIN && errno != EINTR) input = {};  // it reads no more
    }
    if (entries[0].revents == 0) continue;
    const ssize_t n = read(child.output_, buffer.data(), buffer.size());
    if (n == 0) break;
    if (n < 0 && errno != EAGAIN && errno != EINTR) break;
    if (n < 0) continue;
    out.text.append(buffer.data(), static_cast<size_t>(n));
    if (out.text.size() > most) {
      out.truncated = true;
      out.text.resize(most);
      break;
    }
  }
  if (out.timed_out || out.truncated) child.kill_all();
  // A child that closed its output and runs on is ended at the deadline.
  while (!out.timed_out && !out.truncated) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(child.pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != 0) {
      break;
    }
    if (ChildProcess::Clock::now() > deadline) {
      out.timed_out = true;
      child.kill_all();
      break;
    }
    constexpr int kPauseMilliseconds = 2;
    (void)poll(nullptr, 0, kPauseMilliseconds);
  }
  out.code = child.wait();
  return out;
}

}  // namespace chimere
