// Shared libraries opened at run time, so that the program also starts without them.
#ifndef CHIMERE_BASE_DYNAMIC_LIBRARY_H_
#define CHIMERE_BASE_DYNAMIC_LIBRARY_H_

#include <string>

#include "base/result.h"

namespace chimere {

/// The library stays open until the process ends: drivers do not survive being closed while their
/// threads run.
class DynamicLibrary {
 public:
  /// `name` is a file name that the dynamic loader finds ("libcuda.so.1"). Errors: kNotFound.
  static Result<DynamicLibrary> open(const std::string& name);

  /// nullptr if the library has no such function.
  void* find(const char* symbol) const;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_DYNAMIC_LIBRARY_H_
