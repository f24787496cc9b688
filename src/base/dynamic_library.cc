#include "base/dynamic_library.h"

#include <dlfcn.h>

namespace chimere {

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return not_found("the library " + name + " is not installed");
  return DynamicLibrary(handle);
}

void* DynamicLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace chimere
