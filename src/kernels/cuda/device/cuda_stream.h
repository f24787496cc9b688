// The queue of work of a card.
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

/// What a GPU does less than it could, under a profile.
struct CudaLimits {
  bool warpgroups = true;    ///< products by warpgroups
  int64_t shared_bytes = 0;  ///< most of a block, static and dynamic; 0: the driver knows
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
  /// Whether calls to the driver make sense; they go to the GPU's context then.
  bool ready();
  void launch_bytes(const Kernel& kernel, const Launch& shape, const void* args,
                    size_t bytes) override;
  /// With a null handle after a failure.
  LoadedFunction function(const Kernel& kernel);
  driver::Module* module(const Kernel& kernel);
  /// Keeps the first failure; true if `result` is none.
  bool check(int result, const char* what, const char* name);

  const driver::Api& api_;
  driver::Context* context_;
  CudaLimits limits_;
  driver::StreamHandle* stream_ = nullptr;
  driver::Event* reached_ = nullptr;  ///< by this stream, when another waited for it last
  std::array<driver::Event*, kMarks> marks_ = {};
  std::unordered_map<const char*, LoadedFunction> functions_;  ///< by address of the name
  std::unordered_map<std::string, driver::Module*> modules_;
  int64_t recorded_kernels_ = 0;  ///< of the recording that this stream began last
  /// Counts the kernels of the recording that this stream's work goes to; nullptr: it is done.
  int64_t* recorded_ = nullptr;
  Status status_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_CUDA_STREAM_H_
