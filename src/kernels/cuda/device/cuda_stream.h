// A Stream that queues work on a GPU through the CUDA driver.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_CUDA_STREAM_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_CUDA_STREAM_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/cuda/device/driver.h"
#include "kernels/cuda/device/stream.h"

namespace chimere::kernels::cuda {

/// Limits that a profile imposes below the GPU's own.
struct CudaLimits {
  bool warpgroups = true;  ///< whether warpgroup products may be used
  /// Most shared memory of a block, static and dynamic; 0: the GPU's own limit.
  int64_t shared_bytes = 0;
  int shared_carveout = -1;  ///< driver::kFunctionSharedCarveout; -1: the driver's choice
};

/// Loads a module when its first kernel is launched.
class CudaStream final : public Stream {
 public:
  /// Errors: kIo.
  static Result<std::unique_ptr<CudaStream>> create(const driver::Api& api,
                                                    driver::Context* context,
                                                    const CudaLimits& limits);
  ~CudaStream() override;

  void copy(void* to, const void* from, size_t bytes) override;
  void clear(void* to, size_t bytes) override;
  void call(void (*work)(void* data), void* data) override;
  void wait_for(Stream& other) override;
  void begin_capture() override;
  std::unique_ptr<Graph> end_capture() override;
  void replay(const Graph& graph) override;
  Status synchronize() override;
  void mark(int number) override;
  Status wait_for_mark(int number) override;

 private:
  struct LoadedFunction {
    driver::Function* handle = nullptr;
    int static_shared = 0;
  };

  CudaStream(const driver::Api& api, driver::Context* context, const CudaLimits& limits)
      : api_(api), context_(context), limits_(limits) {}
  /// Makes the GPU's context current for this thread. False after a failure, when no further driver
  /// calls are made.
  bool ready();
  void launch_bytes(const Kernel& kernel, const Launch& shape, const void* args,
                    size_t bytes) override;
  /// Loads the kernel's module and function at first use. The handle is null after a failure.
  LoadedFunction function(const Kernel& kernel);
  driver::Module* module(const Kernel& kernel);
  /// Keeps the first failure. True if `result` is kSuccess.
  bool check(int result, const char* what, const char* name);

  const driver::Api& api_;
  driver::Context* context_;
  CudaLimits limits_;
  driver::StreamHandle* stream_ = nullptr;
  driver::Event* reached_ = nullptr;  ///< recorded for the last wait of another stream on this one
  std::array<driver::Event*, kMarks> marks_ = {};
  std::unordered_map<const char*, LoadedFunction> functions_;  ///< by the address of the name
  std::unordered_map<std::string, driver::Module*> modules_;
  int64_t captured_kernels_ = 0;  ///< of the recording that this stream began last
  /// Counts the kernels of the recording that this stream's work goes to; nullptr: it is done.
  int64_t* captured_ = nullptr;
  Status status_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_CUDA_STREAM_H_
