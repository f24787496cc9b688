#include "kernels/cuda/device/driver.h"

#include <string>

#include "base/dynamic_library.h"

namespace chimere::kernels::cuda::driver {
namespace {

Result<Api> load() {
  const auto library = DynamicLibrary::open("libcuda.so.1");
  if (!library.ok()) {
    return unsupported(
        "no NVIDIA driver was found (libcuda.so.1); install one, or use "
        "--backend cpu");
  }
  Api api;
#define CHIMERE_LOAD(member, symbol, parameters)                                      \
  api.member = reinterpret_cast<decltype(api.member)>(library->find(symbol));         \
  if (api.member == nullptr) {                                                        \
    return unsupported("the NVIDIA driver is too old: it lacks " symbol               \
                       "; install one for CUDA 12.0 or later, or use --backend cpu"); \
  }
  CHIMERE_DRIVER_FUNCTIONS(CHIMERE_LOAD)
#undef CHIMERE_LOAD
  const int result = api.init(0);
  if (result != kSuccess) {
    return unsupported("the NVIDIA driver does not start (" + error_text(api, result) +
                       "); use --backend cpu");
  }
  return api;
}

}  // namespace

Result<const Api*> open() {
  static const Result<Api> api = load();
  if (!api.ok()) return api.error();
  return &*api;
}

void use_context(const Api& api, Context* context) {
  thread_local Context* current = nullptr;
  if (current == context) return;
  // A failure also shows in the next driver call.
  if (api.context_set(context) == kSuccess) current = context;
}

std::string error_text(const Api& api, int result) {
  const char* text = nullptr;
  api.error_string(result, &text);
  return "the driver says: " + (text != nullptr ? std::string(text) : std::to_string(result));
}

}  // namespace chimere::kernels::cuda::driver
