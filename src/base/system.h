// What a command-line program asks the operating system.
#ifndef CHIMERE_BASE_SYSTEM_H_
#define CHIMERE_BASE_SYSTEM_H_

#include <cstdint>
#include <string>

namespace chimere {

enum class StandardStream { kInput = 0, kOutput = 1, kError = 2 };
/// True if a person sits there: the stream is a terminal and no file or pipe.
bool is_terminal(StandardStream stream);

/// Folder of the running program, without links; empty if the system does not say.
std::string program_folder();
/// $HOME; empty if there is none.
std::string home_folder();
/// Where programs keep a user's data: $XDG_DATA_HOME, else ~/.local/share; empty if there is
/// neither.
std::string data_folder();
/// Where programs keep what they may lose without harm to the user: $XDG_STATE_HOME, else
/// ~/.local/state; empty if there is neither.
std::string state_folder();
/// The process's "NAME=value" strings, ended by nullptr.
const char* const* environment();

/// Bytes of memory that a program could take now without others being pushed out to disk; 0 if
/// unknown.
int64_t available_memory();

/// The calling thread gets a small share of a busy processor: what it does can wait.
void lower_thread_priority();

/// Lets this process have as many files and connections open as it may ask for.
void raise_open_file_limit();
/// Tells the service manager (systemd's sd_notify protocol: $NOTIFY_SOCKET) a state like "READY=1";
/// nothing where there is none.
void notify_service_manager(const std::string& state);

}  // namespace chimere

#endif  // CHIMERE_BASE_SYSTEM_H_
