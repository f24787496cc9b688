#include "kernels/cuda/device/cuda_stream.h"

#include <utility>

#include "kernels/cuda/device/modules.h"

namespace chimere::kernels::cuda {
namespace {

driver::Address address(const void* p) { return reinterpret_cast<driver::Address>(p); }

struct CudaGraph final : Graph {
  CudaGraph(const driver::Api& driver_api, driver::GraphExec* graph, int64_t kernels_inside)
      : api(driver_api), exec(graph), kernels(kernels_inside) {}
  ~CudaGraph() override { api.graph_exec_destroy(exec); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  const driver::Api& api;
  driver::GraphExec* exec;
  int64_t kernels;
};

}  // namespace

Result<std::unique_ptr<CudaStream>> CudaStream::create(const driver::Api& api,
                                                       driver::Context* context,
                                                       const CudaLimits& limits) {
  std::unique_ptr<CudaStream> stream(new CudaStream(api, context, limits));
  driver::use_context(api, context);
  int result = api.stream_create(&stream->stream_, driver::kStreamNonBlocking);
  for (driver::Event** event : {&stream->reached_, &stream->marks_[0], &stream->marks_[1]}) {
    if (result == driver::kSuccess) result = api.event_create(event, driver::kEventDisableTiming);
  }
  if (result != driver::kSuccess) {
    return io_error("cannot create a stream on the GPU; " + driver::error_text(api, result));
  }
  return stream;
}

CudaStream::~CudaStream() {
  driver::use_context(api_, context_);
  if (stream_ != nullptr) {
    api_.stream_synchronize(stream_);
    api_.stream_destroy(stream_);
  }
  for (driver::Event* event : {reached_, marks_[0], marks_[1]}) {
    if (event != nullptr) api_.event_destroy(event);
  }
  for (const auto& [name, loaded] : modules_) api_.module_unload(loaded);
}

bool CudaStream::ready() {
  if (!status_.ok()) return false;
  driver::use_context(api_, context_);
  return true;
}

bool CudaStream::check(int result, const char* what, const char* name) {
  if (result == driver::kSuccess) return true;
  if (status_.ok()) {
    status_ = io_error("the GPU failed (" + std::string(what) + " " + name + "); " +
                       driver::error_text(api_, result) + "; start the program again");
  }
  return false;
}

driver::Module* CudaStream::module(const Kernel& kernel) {
  const auto known = modules_.find(kernel.module);
  if (known != modules_.end()) return known->second;
  for (const EmbeddedModule& embedded : embedded_modules()) {
    if (std::string_view(embedded.name) != kernel.module) continue;
    const bool plain = !limits_.warpgroups && embedded.without_warpgroups != nullptr;
    const uint8_t* const image = plain ? embedded.without_warpgroups : embedded.image;
    driver::Module* loaded = nullptr;
    if (!check(api_.module_load(&loaded, image), "loading", kernel.module)) return nullptr;
    return modules_[kernel.module] = loaded;
  }
  check(driver::kErrorNotFound, "finding the module", kernel.module);
  return nullptr;
}

CudaStream::LoadedFunction CudaStream::function(const Kernel& kernel) {
  const auto known = functions_.find(kernel.name);
  if (known != functions_.end()) return known->second;
  driver::Module* const loaded = module(kernel);
  if (loaded == nullptr) return {};
  LoadedFunction found;
  int result = api_.module_function(&found.handle, loaded, kernel.name);
  if (!check(result, "finding", kernel.name)) return {};
  result = api_.function_get(&found.static_shared, driver::kFunctionStaticShared, found.handle);
  if (result == driver::kSuccess && limits_.shared_carveout >= 0) {
    result =
        api_.function_set(found.handle, driver::kFunctionSharedCarveout, limits_.shared_carveout);
  }
  if (!check(result, "preparing", kernel.name)) return {};
  return functions_[kernel.name] = found;
}

void CudaStream::launch_bytes(const Kernel& kernel, const Launch& shape, const void* args,
                              size_t /*bytes*/) {
  if (!ready()) return;
  const LoadedFunction f = function(kernel);
  if (f.handle == nullptr) return;
  const int64_t shared = int64_t{shape.shared_bytes} + f.static_shared;
  if (limits_.shared_bytes > 0 && shared > limits_.shared_bytes) {
    status_ = io_error("the kernel '" + std::string(kernel.name) + "' asks for " +
                       std::to_string(shared) + " bytes of shared memory; a block has " +
                       std::to_string(limits_.shared_bytes) + " under this --cuda-profile");
    return;
  }
  // 48 KiB including a kernel's static arrays, which take less than 16.
  constexpr uint32_t kAlwaysAllowed = 32 << 10;
  if (shape.shared_bytes > kAlwaysAllowed) {
    const auto wanted = static_cast<int>(shape.shared_bytes);
    if (!check(api_.function_set(f.handle, driver::kFunctionMaxDynamicShared, wanted), "preparing",
               kernel.name)) {
      return;
    }
  }
  driver::LaunchAttribute overlap;
  overlap.value = 1;
  const driver::LaunchConfig config = {{shape.grid.x, shape.grid.y, shape.grid.z},
                                       {shape.block.x, shape.block.y, shape.block.z},
                                       shape.shared_bytes,
                                       stream_,
                                       &overlap,
                                       shape.overlaps_previous ? 1U : 0U};
  void* parameters[] = {const_cast<void*>(args)};
  ++(captured_ != nullptr ? *captured_ : counts_.launches);
  check(api_.launch(&config, f.handle, parameters, nullptr), "launching", kernel.name);
}

void CudaStream::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0 || !ready()) return;
  check(api_.copy(address(to), address(from), bytes, stream_), "copying", "bytes");
}

void CudaStream::clear(void* to, size_t bytes) {
  if (bytes == 0 || !ready()) return;
  check(api_.fill(address(to), 0, bytes, stream_), "clearing", "bytes");
}

void CudaStream::call(void (*work)(void* data), void* data) {
  if (!ready()) return;
  check(api_.host_call(stream_, work, data), "queueing", "a host call");
}

void CudaStream::wait_for(Stream& other) {
  auto& gpu = static_cast<CudaStream&>(other);
  if (status_.ok() && !gpu.status_.ok()) status_ = gpu.status_;
  if (gpu.captured_ != nullptr && captured_ == nullptr) {
    captured_ = gpu.captured_;
  } else if (captured_ == &captured_kernels_) {
    gpu.captured_ = nullptr;
  }
  if (!ready()) return;
  check(api_.event_record(gpu.reached_, gpu.stream_), "recording", "an event");
  check(api_.stream_wait(stream_, gpu.reached_, 0), "waiting for", "an event");
}

void CudaStream::begin_capture() {
  captured_kernels_ = 0;
  captured_ = &captured_kernels_;
  if (!ready()) return;
  check(api_.capture_begin(stream_, driver::kCaptureThreadLocal), "capturing", "a step");
}

std::unique_ptr<Graph> CudaStream::end_capture() {
  captured_ = nullptr;
  driver::GraphHandle* graph = nullptr;
  const int ended =
      api_.capture_end(stream_, &graph);  // also after a failure, to leave capture mode
  if (!check(ended, "capturing", "a step")) return nullptr;
  driver::GraphExec* exec = nullptr;
  const int result = status_.ok() ? api_.graph_instantiate(&exec, graph, 0) : driver::kSuccess;
  api_.graph_destroy(graph);
  if (!check(result, "instantiating", "a graph") || exec == nullptr) return nullptr;
  return std::make_unique<CudaGraph>(api_, exec, captured_kernels_);
}

void CudaStream::replay(const Graph& graph) {
  if (!ready()) return;
  const auto& gpu = static_cast<const CudaGraph&>(graph);
  ++counts_.graph_launches;
  counts_.graph_kernels += gpu.kernels;
  check(api_.graph_launch(gpu.exec, stream_), "launching", "a graph");
}

Status CudaStream::synchronize() {
  if (!ready()) return status_;
  ++counts_.synchronisations;
  check(api_.stream_synchronize(stream_), "computing", "a step");
  return status_;
}

void CudaStream::mark(int number) {
  if (!ready()) return;
  check(api_.event_record(marks_[static_cast<size_t>(number)], stream_), "recording", "an event");
}

Status CudaStream::wait_for_mark(int number) {
  if (!ready()) return status_;
  ++counts_.synchronisations;
  check(api_.event_synchronize(marks_[static_cast<size_t>(number)]), "computing", "a step");
  return status_;
}

}  // namespace chimere::kernels::cuda
