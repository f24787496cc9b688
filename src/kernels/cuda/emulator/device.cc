#include "kernels/cuda/emulator/device.h"

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device/profile.h"

namespace chimere::kernels::cuda {
namespace {

using emulator::Index3;

constexpr int64_t kSharedBytes = int64_t{99} << 10;

using Work = std::function<Status()>;

struct EmulatedGraph final : Graph {
  std::vector<Work> works;
  int64_t kernels = 0;
};

/// Runs its work only when the host waits for it, so that host data that changes too early shows in
/// the results.
class EmulatedStream final : public Stream {
 public:
  explicit EmulatedStream(emulator::Order order) : order_(order) {}

  void copy(void* to, const void* from, size_t bytes) override {
    add([=]() -> Status {
      if (bytes > 0) std::memcpy(to, from, bytes);
      return {};
    });
  }
  void clear(void* to, size_t bytes) override {
    add([=]() -> Status {
      if (bytes > 0) std::memset(to, 0, bytes);
      return {};
    });
  }

  void call(void (*work)(void* data), void* data) override {
    add([=]() -> Status {
      work(data);
      return {};
    });
  }
  void wait_for(Stream& /*other*/) override {}  // all work runs in the order of submission

  void begin_capture() override { capturing_ = std::make_unique<EmulatedGraph>(); }
  std::unique_ptr<Graph> end_capture() override {
    std::unique_ptr<EmulatedGraph> graph = std::move(capturing_);
    if (!status_.ok()) return nullptr;
    return graph;
  }
  void replay(const Graph& graph) override {
    const auto& recorded = static_cast<const EmulatedGraph&>(graph);
    ++counts_.graph_launches;
    counts_.graph_kernels += recorded.kernels;
    for (const Work& work : recorded.works) add(work);
  }

  Status synchronize() override {
    ++counts_.synchronisations;
    return run_until(submitted_);
  }
  void mark(int number) override { marks_[static_cast<size_t>(number)] = submitted_; }
  Status wait_for_mark(int number) override {
    ++counts_.synchronisations;
    return run_until(marks_[static_cast<size_t>(number)]);
  }

  /// Runs all work up to number `end` of the work submitted so far.
  Status run_until(int64_t end) {
    while (done_ < end) {
      const Work work = std::move(works_.front());
      works_.pop_front();
      ++done_;
      if (status_.ok()) status_ = work();
    }
    return status_;
  }
  Status finish() { return run_until(submitted_); }

 private:
  void launch_bytes(const Kernel& kernel, const Launch& shape, const void* args,
                    size_t bytes) override {
    ++(capturing_ != nullptr ? capturing_->kernels : counts_.launches);
    const auto* first = static_cast<const uint8_t*>(args);
    // Arguments are aligned as on a GPU.
    auto copy = std::make_shared<std::vector<uint64_t>>((bytes + 7) / 8);
    std::memcpy(copy->data(), first, bytes);
    add([this, kernel, shape, copy, bytes] { return run(kernel, shape, copy->data(), bytes); });
  }

  Status run(const Kernel& kernel, const Launch& shape, const void* args, size_t bytes) const {
    const emulator::Registration* found = emulator::find_kernel(kernel.name);
    if (found == nullptr || found->args_bytes != bytes) {
      return io_error("there is no kernel '" + std::string(kernel.name) + "' with " +
                      std::to_string(bytes) + " bytes of arguments");
    }
    if (shape.shared_bytes > kSharedBytes) {
      return io_error("the kernel '" + std::string(kernel.name) + "' asks for " +
                      std::to_string(shape.shared_bytes) + " bytes of shared memory; a block has " +
                      std::to_string(kSharedBytes));
    }
    const auto index = [](const Dim& d) { return Index3{d.x, d.y, d.z}; };
    return emulator::run_grid(
        *found, {index(shape.grid), index(shape.block), shape.shared_bytes, order_}, args);
  }

  void add(Work work) {
    if (!status_.ok()) return;
    if (capturing_ != nullptr) {
      capturing_->works.push_back(std::move(work));
    } else {
      works_.push_back(std::move(work));
      ++submitted_;
    }
  }

  emulator::Order order_;
  Status status_;
  std::deque<Work> works_;  ///< submitted, not run yet
  int64_t submitted_ = 0;
  int64_t done_ = 0;
  std::array<int64_t, kMarks> marks_ = {};
  std::unique_ptr<EmulatedGraph> capturing_;
};

/// Frees its memory only after all work that may use it, as the driver does.
class HostBytes final : public Pinned {
 public:
  HostBytes(size_t bytes, EmulatedStream& stream) : bytes_(new uint8_t[bytes]), stream_(stream) {}
  ~HostBytes() override { (void)stream_.finish(); }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  uint8_t* data() const override { return bytes_.get(); }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  EmulatedStream& stream_;
};

class EmulatedRange final : public MemoryRange {
 public:
  EmulatedRange(std::unique_ptr<MemoryRange> host, MemoryAccount& account, EmulatedStream& stream)
      : host_(std::move(host)), account_(account), stream_(stream) {}
  ~EmulatedRange() override {
    (void)stream_.finish();
    account_.give_back(committed_);
  }
  EmulatedRange(const EmulatedRange&) = delete;
  EmulatedRange& operator=(const EmulatedRange&) = delete;

  Status commit(size_t bytes) override {
    if (bytes <= committed_) return {};
    const size_t more = bytes - committed_;
    CHIMERE_CHECK_OK(account_.take(more));
    Status done = host_->commit(bytes);
    if (done.ok()) {
      committed_ = bytes;
    } else {
      account_.give_back(more);
    }
    return done;
  }
  uint8_t* data() const override { return host_->data(); }

 private:
  std::unique_ptr<MemoryRange> host_;
  MemoryAccount& account_;
  EmulatedStream& stream_;
  size_t committed_ = 0;
};

class Emulator final : public Device {
 public:
  Emulator(emulator::Order order, Profile profile) : stream_(order) {
    DeviceFacts own;
    own.name = "emulator";
    own.compute_capability = 80;
    own.multiprocessors = 4;
    own.shared_bytes = kSharedBytes;
    own.memory_bytes = int64_t{1} << 40;
    facts_ = facts_under(profile, own);
  }

  const DeviceFacts& facts() const override { return facts_; }
  Stream& stream() override { return stream_; }
  Result<Stream*> side_stream() override { return &stream_; }
  Result<int64_t> free_bytes() override { return facts_.memory_bytes - account().used(); }
  Result<std::unique_ptr<Pinned>> pinned(size_t bytes) override {
    return std::unique_ptr<Pinned>(std::make_unique<HostBytes>(bytes, stream_));
  }

  Result<std::unique_ptr<MemoryRange>> reserve(size_t bytes) override {
    CHIMERE_TRY(std::unique_ptr<MemoryRange> host, host_memory().reserve(bytes));
    return std::unique_ptr<MemoryRange>(
        std::make_unique<EmulatedRange>(std::move(host), account(), stream_));
  }
  Status write(void* to, const void* from_host, size_t bytes) override {
    stream_.copy(to, from_host, bytes);
    return stream_.synchronize();
  }
  Status read(void* to_host, const void* from, size_t bytes) override {
    const std::lock_guard<std::mutex> lock(reader_mutex_);
    CHIMERE_CHECK_OK(stream_.finish());
    return host_memory().read(to_host, from, bytes);
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    stream_.copy(to, from, bytes);
    return {};
  }
  Status clear(void* to, size_t bytes) override {
    stream_.clear(to, bytes);
    return {};
  }

 private:
  DeviceFacts facts_;
  EmulatedStream stream_;
  std::mutex reader_mutex_;  ///< read() may be called by several threads
};

}  // namespace

std::unique_ptr<Device> make_emulator(emulator::Order order, Profile profile) {
  return std::make_unique<Emulator>(order, profile);
}

}  // namespace chimere::kernels::cuda
