// A library for LD_PRELOAD that simulates a slow disk: each open for writing, truncate, fsync and
// rename first waits SLOW_DISK_MICROSECONDS (2000 if it is not set). `make slow-disk` runs the
// tests with it, on one core.
//
// It interposes the glibc functions of these names. Calls within glibc, such as fopen's open,
// cannot be interposed, so fopen and the functions behind C++ streams are interposed too.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

void wait() {
  static const long microseconds = [] {
    const char* given = std::getenv("SLOW_DISK_MICROSECONDS");
    return given != nullptr ? std::strtol(given, nullptr, 10) : 2000L;
  }();
  const int before = errno;
  timespec left{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  errno = before;
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }
bool writes(const char* mode) { return std::strpbrk(mode, "wa+") != nullptr; }

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

/// The function that this library's function of the same name hides.
template <typename Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Defines `real`, the hidden function; looked up once.
#define NEXT(name) static const auto real = next(&::name, #name)

extern "C" {

#define OPEN(name)                                 \
  int name(const char* path, int flags, ...) {     \
    NEXT(name);                                    \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    if (writes(flags)) wait();                     \
    return real(path, flags, mode);                \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                       \
  int name(int folder, const char* path, int flags, ...) { \
    NEXT(name);                                            \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_of(flags, arguments);         \
    va_end(arguments);                                     \
    if (writes(flags)) wait();                             \
    return real(folder, path, flags, mode);                \
  }
OPENAT(openat)
OPENAT(openat64)

#define CREAT(name)                         \
  int name(const char* path, mode_t mode) { \
    NEXT(name);                             \
    wait();                                 \
    return real(path, mode);                \
  }
CREAT(creat)
CREAT(creat64)

#define FOPEN(name)                                \
  FILE* name(const char* path, const char* mode) { \
    NEXT(name);                                    \
    if (writes(mode)) wait();                      \
    return real(path, mode);                       \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define MKSTEMP(name)       \
  int name(char* pattern) { \
    NEXT(name);             \
    wait();                 \
    return real(pattern);   \
  }
MKSTEMP(mkstemp)
MKSTEMP(mkstemp64)

#define MKOSTEMP(name)                 \
  int name(char* pattern, int flags) { \
    NEXT(name);                        \
    wait();                            \
    return real(pattern, flags);       \
  }
MKOSTEMP(mkostemp)
MKOSTEMP(mkostemp64)

#define TRUNCATE(name, Size)                       \
  int name(const char* path, Size size) noexcept { \
    NEXT(name);                                    \
    wait();                                        \
    return real(path, size);                       \
  }
TRUNCATE(truncate, off_t)
TRUNCATE(truncate64, off64_t)

#define FTRUNCATE(name, Size)              \
  int name(int file, Size size) noexcept { \
    NEXT(name);                            \
    wait();                                \
    return real(file, size);               \
  }
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define SYNC(name)     \
  int name(int file) { \
    NEXT(name);        \
    wait();            \
    return real(file); \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  wait();
  return real(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  NEXT(renameat);
  wait();
  return real(from_folder, from, to_folder, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  NEXT(renameat2);
  wait();
  return real(from_folder, from, to_folder, to, flags);
}
}
