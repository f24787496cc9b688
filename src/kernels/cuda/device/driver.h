// The part of the CUDA driver API that the back end uses, declared here so that the host side
// builds without the CUDA toolkit. Types, constants and signatures follow the CUDA Driver API
// reference (12.8); the driver keeps them stable for existing programs.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_DRIVER_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace chimere::kernels::cuda::driver {

using Address = unsigned long long;       // NOLINT(google-runtime-int): CUdeviceptr
using Size = unsigned long long;          // NOLINT(google-runtime-int): where the API says so
using MemoryHandle = unsigned long long;  // NOLINT(google-runtime-int)
using DeviceNumber = int;
struct Context;
struct Module;
struct Function;
struct StreamHandle;
struct Event;
struct GraphHandle;
struct GraphExec;

inline constexpr int kSuccess = 0;
inline constexpr int kErrorOutOfMemory = 2;
inline constexpr int kErrorNoBinaryForDevice = 209;
inline constexpr int kErrorNotFound = 500;

enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedMemoryPerMultiprocessor = 81,
  kSharedMemoryPerBlockOptin = 97,
};
enum FunctionAttribute : int {
  kFunctionStaticShared = 1,
  kFunctionMaxDynamicShared = 8,
  kFunctionSharedCarveout = 9,  ///< percent of a multiprocessor's shared memory, rounded up
};
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;

struct LaunchAttribute {
  int id = 6;  ///< programmatic stream serialization
  int pad = 0;
  union {
    char bytes[64];
    int value;
  };
};
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  StreamHandle* stream;
  LaunchAttribute* attributes;
  unsigned n_attributes;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

struct MemoryLocation {
  int type = 1;  ///< a device
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  ///< pinned
  int handle_types = 0;
  MemoryLocation location;
  void* windows = nullptr;
  uint8_t flags[8] = {};
};
struct AccessDescription {
  MemoryLocation location;
  int flags = 3;  ///< read and write
};
static_assert(sizeof(AllocationProperties) == 32 && sizeof(AccessDescription) == 12);

/// (member, symbol in the library, parameter types). Each function returns a CUresult.
// clang-format off
#define CHIMERE_DRIVER_FUNCTIONS(F)                                                               \
  F(init, "cuInit", (unsigned))                                                                   \
  F(error_string, "cuGetErrorString", (int, const char**))                                        \
  F(device_count, "cuDeviceGetCount", (int*))                                                     \
  F(device_get, "cuDeviceGet", (DeviceNumber*, int))                                              \
  F(device_name, "cuDeviceGetName", (char*, int, DeviceNumber))                                   \
  F(device_memory, "cuDeviceTotalMem_v2", (size_t*, DeviceNumber))                                \
  F(device_attribute, "cuDeviceGetAttribute", (int*, int, DeviceNumber))                          \
  F(context_retain, "cuDevicePrimaryCtxRetain", (Context**, DeviceNumber))                        \
  F(context_release, "cuDevicePrimaryCtxRelease_v2", (DeviceNumber))                              \
  F(context_set, "cuCtxSetCurrent", (Context*))                                                   \
  F(memory_info, "cuMemGetInfo_v2", (size_t*, size_t*))                                           \
  F(host_allocate, "cuMemHostAlloc", (void**, size_t, unsigned))                                  \
  F(host_free, "cuMemFreeHost", (void*))                                                          \
  F(copy, "cuMemcpyAsync", (Address, Address, size_t, StreamHandle*))                             \
  F(fill, "cuMemsetD8Async", (Address, unsigned char, size_t, StreamHandle*))                     \
  F(granularity, "cuMemGetAllocationGranularity", (size_t*, const AllocationProperties*, int))    \
  F(address_reserve, "cuMemAddressReserve", (Address*, size_t, size_t, Address, Size))            \
  F(address_free, "cuMemAddressFree", (Address, size_t))                                          \
  F(memory_create, "cuMemCreate", (MemoryHandle*, size_t, const AllocationProperties*, Size))     \
  F(memory_release, "cuMemRelease", (MemoryHandle))                                               \
  F(memory_map, "cuMemMap", (Address, size_t, size_t, MemoryHandle, Size))                        \
  F(memory_unmap, "cuMemUnmap", (Address, size_t))                                                \
  F(memory_access, "cuMemSetAccess", (Address, size_t, const AccessDescription*, size_t))         \
  F(stream_create, "cuStreamCreate", (StreamHandle**, unsigned))                                  \
  F(stream_destroy, "cuStreamDestroy_v2", (StreamHandle*))                                        \
  F(stream_synchronize, "cuStreamSynchronize", (StreamHandle*))                                   \
  F(stream_wait, "cuStreamWaitEvent", (StreamHandle*, Event*, unsigned))                          \
  F(host_call, "cuLaunchHostFunc", (StreamHandle*, void (*)(void*), void*))                       \
  F(event_create, "cuEventCreate", (Event**, unsigned))                                           \
  F(event_destroy, "cuEventDestroy_v2", (Event*))                                                 \
  F(event_record, "cuEventRecord", (Event*, StreamHandle*))                                       \
  F(event_synchronize, "cuEventSynchronize", (Event*))                                            \
  F(capture_begin, "cuStreamBeginCapture_v2", (StreamHandle*, int))                               \
  F(capture_end, "cuStreamEndCapture", (StreamHandle*, GraphHandle**))                            \
  F(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec**, GraphHandle*, Size))          \
  F(graph_destroy, "cuGraphDestroy", (GraphHandle*))                                              \
  F(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec*))                                       \
  F(graph_launch, "cuGraphLaunch", (GraphExec*, StreamHandle*))                                   \
  F(module_load, "cuModuleLoadData", (Module**, const void*))                                     \
  F(module_unload, "cuModuleUnload", (Module*))                                                   \
  F(module_function, "cuModuleGetFunction", (Function**, Module*, const char*))                   \
  F(function_get, "cuFuncGetAttribute", (int*, int, Function*))                                   \
  F(function_set, "cuFuncSetAttribute", (Function*, int, int))                                    \
  F(launch, "cuLaunchKernelEx", (const LaunchConfig*, Function*, void**, void**))
// clang-format on

struct Api {
#define CHIMERE_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  CHIMERE_DRIVER_FUNCTIONS(CHIMERE_DECLARE)
#undef CHIMERE_DECLARE
};

/// Opens and initialises the driver at the first call. Errors: kUnsupported, with a message for the
/// user.
Result<const Api*> open();

/// Makes `context` current for the calling thread; cheap if it already is.
void use_context(const Api& api, Context* context);

/// "the driver says: ..." for a CUresult.
std::string error_text(const Api& api, int result);

}  // namespace chimere::kernels::cuda::driver

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_DRIVER_H_
