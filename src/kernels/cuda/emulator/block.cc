#include "kernels/cuda/emulator/block.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/emulator/fiber.h"

namespace chimere::kernels::cuda::emulator {
namespace {

constexpr uint32_t kLanes = 32;
constexpr size_t kAlign = 128;
constexpr size_t kNamedBarriers = 16;

const Registration* first_registration = nullptr;

struct Lane {
  enum class State { kRuns, kAtBlockBarrier, kAtNamedBarrier, kAtWarpOperation, kEnded };
  Thread thread;
  Fiber* fiber = nullptr;
  State state = State::kRuns;
  uint32_t partners = 0;  ///< lanes named by the warp operation that it waits at
  int barrier = 0;        ///< the named barrier that it waits at
};

/// Runs blocks one after the other, reusing the fibers' stacks.
class Runner {
 public:
  Status run(const Registration& kernel, const Grid& grid, const void* args);

  Lane& lane() { return *lane_; }
  uint8_t* shared() { return shared_begin_; }
  /// The running lane arrives at a named barrier; whether that opens it.
  bool arrive(int barrier, int threads);
  /// Where the lane puts what it passes to its warp.
  uint8_t* offered(const Lane& lane) {
    return offered_.data() + static_cast<size_t>(&lane - lanes_.data()) * kSlotBytes;
  }
  /// What the lanes of its warp passed in the last operation.
  const uint8_t* seen(const Lane& lane) {
    const size_t warp = static_cast<size_t>(&lane - lanes_.data()) / kLanes;
    return seen_.data() + warp * kLanes * kSlotBytes;
  }

 private:
  void prepare(const Grid& grid);
  void start_block(const Grid& grid, Index3 block);
  Status run_block();
  bool advance_warp(size_t first, size_t last);
  void resume(Lane& lane);
  bool release_warp(size_t first, size_t last);
  bool release_block();
  static void body(void*);

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Lane> lanes_;
  std::vector<uint8_t> offered_;
  /// Copied when all partners have arrived, so that a fast lane cannot overwrite it.
  std::vector<uint8_t> seen_;
  std::array<int, kNamedBarriers> arrived_ = {};  ///< threads at each named barrier
  std::vector<uint8_t> shared_;
  uint8_t* shared_begin_ = nullptr;
  size_t shared_bytes_ = 0;
  const Registration* kernel_ = nullptr;
  const void* args_ = nullptr;
  Order order_ = Order::kRising;
  Lane* lane_ = nullptr;
};

Runner& runner() {
  static Runner instance;
  return instance;
}

void Runner::prepare(const Grid& grid) {
  const size_t threads = size_t{grid.block_size.x} * grid.block_size.y * grid.block_size.z;
  while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
  lanes_.assign(threads, {});
  offered_.assign((threads + kLanes - 1) / kLanes * kLanes * kSlotBytes, 0);
  seen_ = offered_;
  shared_bytes_ = grid.shared_bytes;
  // At the end of the allocation, so that an address sanitizer reports accesses beyond it.
  const size_t whole = (shared_bytes_ + kAlign - 1) / kAlign * kAlign;
  shared_ = std::vector<uint8_t>(whole + kAlign);
  const auto begin = reinterpret_cast<uintptr_t>(shared_.data());
  shared_begin_ = shared_.data() + ((begin + kAlign - 1) / kAlign * kAlign - begin);
  order_ = grid.order;
}

void Runner::start_block(const Grid& grid, Index3 block) {
  std::memset(shared_begin_, 0xFF, shared_bytes_);
  arrived_ = {};
  const Index3& size = grid.block_size;
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    lane = {};
    lane.thread.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    lane.thread.block = block;
    lane.thread.block_size = size;
    lane.thread.grid_size = grid.grid_size;
    lane.thread.lane = i % kLanes;
    lane.fiber = fibers_[i].get();
    lane.fiber->start(&body, nullptr);
  }
}

void Runner::body(void*) {
  Runner& r = runner();
  r.kernel_->entry(r.args_);
}

void Runner::resume(Lane& lane) {
  lane_ = &lane;
  running_thread = &lane.thread;
  lane.state = Lane::State::kRuns;
  if (lane.fiber->resume()) lane.state = Lane::State::kEnded;
}

/// Runs the lanes of the warp that can run; true if any did.
bool Runner::advance_warp(size_t first, size_t last) {
  bool moved = false;
  for (size_t n = first; n < last; ++n) {
    const size_t i = order_ == Order::kRising ? n : last - 1 - (n - first);
    if (lanes_[i].state != Lane::State::kRuns) continue;
    resume(lanes_[i]);
    moved = true;
  }
  return moved;
}

/// Releases lanes whose partners have all arrived at the same warp operation.
bool Runner::release_warp(size_t first, size_t last) {
  bool released = false;
  for (size_t i = first; i < last; ++i) {
    if (lanes_[i].state != Lane::State::kAtWarpOperation) continue;
    const uint32_t partners = lanes_[i].partners;
    bool complete = ((partners >> (i - first)) & 1U) != 0;
    for (uint32_t l = 0; l < kLanes && complete; ++l) {
      if (((partners >> l) & 1U) == 0) continue;
      // A block need not fill its last warp; missing lanes count as arrived.
      if (first + l >= last) continue;
      const Lane& other = lanes_[first + l];
      complete = other.state == Lane::State::kAtWarpOperation && other.partners == partners;
    }
    if (!complete) continue;
    for (uint32_t l = 0; l < kLanes; ++l) {
      if (((partners >> l) & 1U) == 0 || first + l >= last) continue;
      Lane& lane = lanes_[first + l];
      lane.state = Lane::State::kRuns;
      std::memcpy(seen_.data() + (first + l) * kSlotBytes, offered(lane), kSlotBytes);
    }
    released = true;
  }
  return released;
}

bool Runner::arrive(int barrier, int threads) {
  int& arrived = arrived_[static_cast<size_t>(barrier)];
  if (++arrived < threads) return false;
  arrived = 0;
  for (Lane& lane : lanes_) {
    if (lane.state != Lane::State::kAtNamedBarrier || lane.barrier != barrier) continue;
    lane.state = Lane::State::kRuns;
  }
  return true;
}

bool Runner::release_block() {
  bool any = false;
  for (const Lane& lane : lanes_) {
    if (lane.state != Lane::State::kAtBlockBarrier && lane.state != Lane::State::kEnded) {
      return false;
    }
    any = any || lane.state == Lane::State::kAtBlockBarrier;
  }
  for (Lane& lane : lanes_) {
    if (lane.state == Lane::State::kAtBlockBarrier) lane.state = Lane::State::kRuns;
  }
  return any;
}

Status Runner::run_block() {
  const size_t warps = (lanes_.size() + kLanes - 1) / kLanes;
  for (;;) {
    bool moved = false;
    for (size_t n = 0; n < warps; ++n) {
      const size_t warp = order_ == Order::kRising ? n : warps - 1 - n;
      const size_t first = warp * kLanes;
      const size_t last = std::min(first + kLanes, lanes_.size());
      while (advance_warp(first, last) || release_warp(first, last)) moved = true;
    }
    // A warp may have opened a named barrier for one that had its turn before.
    if (release_block() || moved) continue;
    for (const Lane& lane : lanes_) {
      if (lane.state != Lane::State::kEnded) {
        return invalid_argument("threads of the kernel '" + std::string(kernel_->name) +
                                "' are deadlocked: not all threads that a warp operation or a "
                                "barrier names arrive at it");
      }
    }
    return {};
  }
}

Status Runner::run(const Registration& kernel, const Grid& grid, const void* args) {
  kernel_ = &kernel;
  args_ = args;
  prepare(grid);
  const Index3& size = grid.grid_size;
  const uint64_t blocks = uint64_t{size.x} * size.y * size.z;
  for (uint64_t n = 0; n < blocks; ++n) {
    const uint64_t b = order_ == Order::kRising ? n : blocks - 1 - n;
    start_block(grid,
                {static_cast<uint32_t>(b % size.x), static_cast<uint32_t>(b / size.x % size.y),
                 static_cast<uint32_t>(b / (uint64_t{size.x} * size.y))});
    CHIMERE_CHECK_OK(run_block());
  }
  return {};
}

}  // namespace

void block_barrier() {
  runner().lane().state = Lane::State::kAtBlockBarrier;
  Fiber::pause();
}

void named_barrier(int barrier, int threads, bool waits) {
  if (runner().arrive(barrier, threads) || !waits) return;
  Lane& lane = runner().lane();
  lane.barrier = barrier;
  lane.state = Lane::State::kAtNamedBarrier;
  Fiber::pause();
}

WarpSlots warp_exchange(uint32_t lanes, const void* mine, size_t bytes) {
  Lane& lane = runner().lane();
  if (bytes > 0) std::memcpy(runner().offered(lane), mine, bytes);
  lane.partners = lanes;
  lane.state = Lane::State::kAtWarpOperation;
  Fiber::pause();
  return {runner().seen(lane)};
}

uint8_t* dynamic_shared() { return runner().shared(); }

Registration::Registration(const char* kernel_name, int threads_limit, size_t bytes, Entry function)
    : name(kernel_name),
      max_threads(threads_limit),
      args_bytes(bytes),
      entry(function),
      next(first_registration) {
  first_registration = this;
}

const Registration* find_kernel(const char* name) {
  for (const Registration* r = first_registration; r != nullptr; r = r->next) {
    if (std::strcmp(r->name, name) == 0) return r;
  }
  return nullptr;
}

Status run_grid(const Registration& kernel, const Grid& grid, const void* args) {
  const uint64_t threads = uint64_t{grid.block_size.x} * grid.block_size.y * grid.block_size.z;
  if (threads == 0 || threads > static_cast<uint64_t>(kernel.max_threads)) {
    return invalid_argument("the kernel '" + std::string(kernel.name) + "' is launched with " +
                            std::to_string(threads) + " threads in a block; it takes 1 to " +
                            std::to_string(kernel.max_threads));
  }
  return runner().run(kernel, grid, args);
}

}  // namespace chimere::kernels::cuda::emulator
