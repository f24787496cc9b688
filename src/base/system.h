// What command-line programs need from the operating system.
#ifndef CHIMERE_BASE_SYSTEM_H_
#define CHIMERE_BASE_SYSTEM_H_

#include <cstdint>
#include <string>

namespace chimere {

enum class StandardStream { kInput = 0, kOutput = 1, kError = 2 };
/// Whether the stream is a terminal, and so interactive.
bool is_terminal(StandardStream stream);

/// Whether standard input is a pipe or a file: neither a terminal nor another device.
bool has_piped_input();

/// Folder of the running executable, with links resolved; empty if unknown.
std::string program_folder();
/// The folder of the program or shared library that this function is part of; empty if unknown.
std::string library_folder();
/// $HOME; empty if unset.
std::string home_folder();
/// Folder for user data: $XDG_DATA_HOME, else ~/.local/share; empty if neither is set.
std::string data_folder();
/// Folder for state that can be lost without harm: $XDG_STATE_HOME, else ~/.local/state; empty if
/// neither is set.
std::string state_folder();
/// The process's "NAME=value" strings, terminated by nullptr.
const char* const* environment();

/// Bytes of memory that the process can allocate without causing swapping; 0 if unknown.
int64_t available_memory();

/// What a 64-bit ARM processor has beyond NEON; nothing on others.
struct ArmFeatures {
  bool dotprod = false;  ///< FEAT_DotProd: byte dot products
  bool i8mm = false;     ///< FEAT_I8MM: byte matrix products
};
ArmFeatures arm_features();

/// Lowers the calling thread's scheduling priority, for work that can wait.
void lower_thread_priority();

/// Raises the process's limit of open files and connections to the maximum allowed.
void raise_open_file_limit();
/// Sends the service manager a state such as "READY=1" (systemd's sd_notify protocol,
/// $NOTIFY_SOCKET); does nothing without one.
void notify_service_manager(const std::string& state);

}  // namespace chimere

#endif  // CHIMERE_BASE_SYSTEM_H_
