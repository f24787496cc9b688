// bin/chimere of the portable tarball: starts lib/chimere.bin with the C library and the other
// shared libraries that lie beside it, so that the program needs nothing of the system but Linux.
// Linked statically. lib/chimere is the dynamic linker, under the name that `ps` shows.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace {

/// The path of this file; empty: unknown. Without /proc, as in a bare chroot, the path that it was
/// started by.
std::string own_path(const char* started_by) {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length < 0 ? 0 : static_cast<size_t>(length));
  if (path.empty() && std::string(started_by).find('/') != std::string::npos) path = started_by;
  return path;
}

}  // namespace

int main(int argc, char** argv, char** environment) {
  if (argc < 1) return 127;
  const std::string path = own_path(argv[0]);
  if (path.empty()) {
    std::fputs("chimere: /proc is not there; start the program by its path, like ./bin/chimere\n",
               stderr);
    return 127;
  }
  const size_t slash = path.rfind('/');
  const std::string libraries =
      (slash == std::string::npos ? std::string(".") : path.substr(0, slash)) + "/../lib";
  const std::string linker = libraries + "/chimere";
  const std::string program = libraries + "/chimere.bin";
  std::vector<std::string> words = {linker,    "--library-path", libraries,
                                    "--argv0", argv[0],          program};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execve(linker.c_str(), pointers.data(), environment);
  std::perror(("chimere: " + linker).c_str());
  return 127;
}
