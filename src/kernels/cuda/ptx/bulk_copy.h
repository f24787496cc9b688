// Bulk copies to shared memory by the copy engine, issued by one lane (PTX ISA, cp.async.bulk and
// mbarrier; compute capability 9.0 and later). Elsewhere the lanes of the warp copy.
#ifndef CHIMERE_KERNELS_CUDA_PTX_BULK_COPY_H_
#define CHIMERE_KERNELS_CUDA_PTX_BULK_COPY_H_

#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/stream_load.h"

namespace chimere::kernels::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CHIMERE_BULK_COPIES 1
#else
#define CHIMERE_BULK_COPIES 0
#endif

#if CHIMERE_BULK_COPIES
/// Begins `count` barriers of one arrival each, at shared addresses 8 bytes apart.
__device__ __forceinline__ void begin_barriers(uint32_t first, int count) {
  for (int i = 0; i < count; ++i) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(first + 8 * i) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Whether the barrier's phase of this parity is complete; waits for it for a while.
__device__ __forceinline__ bool phase_completes(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void wait_for_phase(uint32_t barrier, uint32_t parity) {
  while (!phase_completes(barrier, parity)) {
  }
}

/// One lane starts a copy; `arrived` is the barrier's shared address. kKept: other blocks read the
/// same memory; otherwise it is replaced first in L2 (stream_load.h).
template <bool kKept = false>
__device__ __forceinline__ void bulk_copy(uint8_t* to, const uint8_t* from, int bytes,
                                          uint32_t arrived) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (kKept) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(at),
        "l"(from), "r"(bytes), "r"(arrived)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
        "[%1], %2, [%3], %4;" ::"r"(at),
        "l"(from), "r"(bytes), "r"(arrived), "l"(evict_first())
        : "memory");
  }
}
#endif

/// The copies of one warp. All its lanes make every call together.
class WarpCopies {
 public:
  /// `arrived`: a word of shared memory for this warp, aligned to 8 bytes.
  __device__ __forceinline__ explicit WarpCopies(uint64_t* arrived) {
#if CHIMERE_BULK_COPIES
    arrived_ = static_cast<uint32_t>(__cvta_generic_to_shared(arrived));
    if (first_lane()) {
      begin_barriers(arrived_, 1);
    }
    __syncwarp();
#else
    static_cast<void>(arrived);
#endif
  }

  /// Starts copying consecutive packed rows, like copy_rows().
  __device__ __forceinline__ void begin(uint8_t* to, const uint8_t* from, int bytes) {
#if CHIMERE_BULK_COPIES
    const auto misaligned =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | static_cast<uint32_t>(bytes);
    if (misaligned % 16 == 0) {
      expected_ += static_cast<uint32_t>(bytes);
      if (first_lane()) bulk_copy(to, from, bytes, arrived_);
      return;
    }
#endif
    copy_rows(to, from, bytes);
  }

  /// Waits for all copies started here, and for those that the lanes started themselves.
  __device__ __forceinline__ void wait() {
#if CHIMERE_BULK_COPIES
    if (first_lane()) {
      // Copies may have ended already: the phase completes at this arrival once all bytes are
      // there.
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived_),
                   "r"(expected_)
                   : "memory");
    }
    expected_ = 0;
    wait_for_copies();
    __syncwarp();
    wait_for_phase(arrived_, phase_);
    phase_ ^= 1U;
#else
    wait_for_copies();
    __syncwarp();
#endif
  }

 private:
#if CHIMERE_BULK_COPIES
  static __device__ __forceinline__ bool first_lane() { return threadIdx.x % kWarp == 0; }

  uint32_t arrived_;
  uint32_t phase_ = 0;
  uint32_t expected_ = 0;  ///< bytes of the copies started since the last wait
#endif
};

/// The copies of one warp to the stages of a ring. All its lanes make every call together. A stage
/// takes any number of copies, then one wait().
class RingCopies {
 public:
  /// `arrived`: a word of shared memory for each of `stages` stages of this warp, aligned to 8
  /// bytes.
  __device__ __forceinline__ RingCopies(uint64_t* arrived, int stages) {
#if CHIMERE_BULK_COPIES
    arrived_ = static_cast<uint32_t>(__cvta_generic_to_shared(arrived));
    if (first_lane()) {
      begin_barriers(arrived_, stages);
    }
    __syncwarp();
#else
    static_cast<void>(arrived);
    static_cast<void>(stages);
#endif
  }

  /// Starts copying consecutive packed rows to a stage, like copy_rows(). kKept: see bulk_copy().
  template <bool kKept = false>
  __device__ __forceinline__ void begin(int stage, uint8_t* to, const uint8_t* from, int bytes) {
#if CHIMERE_BULK_COPIES
    const auto misaligned =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | static_cast<uint32_t>(bytes);
    if (misaligned % 16 == 0) {
      if (first_lane()) {
        const uint32_t arrived = arrived_ + 8 * static_cast<uint32_t>(stage);
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(arrived),
                     "r"(bytes)
                     : "memory");
        bulk_copy<kKept>(to, from, bytes, arrived);
      }
      return;
    }
#else
    static_cast<void>(stage);
#endif
    copy_rows(to, from, bytes);
  }

  /// Starts copying kRows consecutive packed rows, the first of them row `first` of those at
  /// `from`, of `bytes` each, to rows `stride` bytes apart at `to`. In place of rows after `last`,
  /// copies row `last`. kAligned: addresses and sizes are multiples of 16.
  template <int kRows, bool kAligned = false>
  __device__ __forceinline__ void begin_rows(int stage, uint8_t* to, int stride,
                                             const uint8_t* from, int bytes, int first, int last) {
#if CHIMERE_BULK_COPIES
    const auto misaligned =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | static_cast<uint32_t>(bytes);
    const bool bulk = kAligned || misaligned % 16 == 0;
    if (bulk) {
      // A lane for each row.
      const auto i = static_cast<int>(threadIdx.x % kWarp);
      if (i < kRows) {
        const uint32_t arrived = arrived_ + 8 * static_cast<uint32_t>(stage);
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(arrived),
                     "r"(bytes)
                     : "memory");
        bulk_copy(to + i * stride, from + static_cast<int64_t>(min(first + i, last)) * bytes, bytes,
                  arrived);
      }
      // All lanes have announced their bytes before the first lane arrives in wait().
      __syncwarp();
    }
#else
    static_cast<void>(stage);
    constexpr bool bulk = false;
#endif
    if constexpr (!kAligned || CHIMERE_BULK_COPIES == 0) {
      if (bulk) return;
#pragma unroll 1
      for (int i = 0; i < kRows; ++i) {
        copy_rows(to + i * stride, from + static_cast<int64_t>(min(first + i, last)) * bytes,
                  bytes);
      }
    }
  }

  /// Starts copying rows first, first + step, ... below `rows` of packed rows at `from`, `bytes`
  /// each, to rows `stride` bytes apart at `to`.
  __device__ __forceinline__ void copy(int stage, uint8_t* to, int stride, const uint8_t* from,
                                       int bytes, int first, int step, int rows) {
    for (int i = first; i < rows; i += step) {
      begin(stage, to + i * stride, from + static_cast<int64_t>(i) * bytes, bytes);
    }
  }

  /// Waits for the copies to a stage, and for those that the lanes started themselves.
  __device__ __forceinline__ void wait(int stage) {
#if CHIMERE_BULK_COPIES
    // Copies may have ended already: the phase completes at this arrival once all bytes are there.
    if (first_lane()) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(arrived_ + 8 * stage)
                   : "memory");
    }
#endif
    wait_for_copies();
    __syncwarp();
#if CHIMERE_BULK_COPIES
    wait_for_phase(arrived_ + 8 * stage, (phases_ >> stage) & 1U);
    phases_ ^= 1U << stage;
#else
    static_cast<void>(stage);
#endif
  }

 private:
#if CHIMERE_BULK_COPIES
  static __device__ __forceinline__ bool first_lane() { return threadIdx.x % kWarp == 0; }

  uint32_t arrived_;
  uint32_t phases_ = 0;  ///< bit i: the parity that stage i waits for next
#endif
};

/// Bulk copies of one warp to the stages of a ring, of known sizes. All its lanes make every call
/// together: for a stage begin(), its copies, then wait(), and again.
class BulkRing {
 public:
  /// `arrived`: a word of shared memory for each of `stages` stages of this warp, aligned to 8
  /// bytes. `bulk`: all addresses and sizes are multiples of 16; otherwise of the rows' largest
  /// unit (packed_layout.h), and the lanes copy.
  __device__ __forceinline__ BulkRing(uint64_t* arrived, int stages, bool bulk) : bulk_(bulk) {
#if CHIMERE_BULK_COPIES
    arrived_ = static_cast<uint32_t>(__cvta_generic_to_shared(arrived));
    if (first_lane()) {
      begin_barriers(arrived_, stages);
    }
    __syncwarp();
#else
    static_cast<void>(arrived);
    static_cast<void>(stages);
#endif
  }

  /// Announces copies of `bytes` in all to a stage.
  __device__ __forceinline__ void begin(int stage, int bytes) {
#if CHIMERE_BULK_COPIES
    if (bulk_ && first_lane()) {
      asm volatile(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived_ + 8 * stage),
          "r"(bytes)
          : "memory");
    }
#else
    static_cast<void>(stage);
    static_cast<void>(bytes);
#endif
  }

  /// Starts a copy to a stage.
  __device__ __forceinline__ void copy(int stage, uint8_t* to, const uint8_t* from, int bytes) {
#if CHIMERE_BULK_COPIES
    if (bulk_) {
      if (first_lane()) {
        bulk_copy(to, from, bytes, arrived_ + 8 * static_cast<uint32_t>(stage));
      }
      return;
    }
#else
    static_cast<void>(stage);
#endif
    copy_rows(to, from, bytes);
  }

  /// Waits for the copies to a stage.
  __device__ __forceinline__ void wait(int stage) {
#if CHIMERE_BULK_COPIES
    if (bulk_) {
      wait_for_phase(arrived_ + 8 * stage, (phases_ >> stage) & 1U);
      phases_ ^= 1U << stage;
      return;
    }
#else
    static_cast<void>(stage);
#endif
    wait_for_copies();
    __syncwarp();
  }

 private:
#if CHIMERE_BULK_COPIES
  static __device__ __forceinline__ bool first_lane() { return threadIdx.x % kWarp == 0; }

  uint32_t arrived_;
  uint32_t phases_ = 0;  ///< bit i: the parity that stage i waits for next
#endif
  bool bulk_;
};

/// The copies of packed rows by kTeam warps of a block for all of them. All threads of the block
/// make every call together, except begin_rows(), which whole warps make.
template <int kTeam>
class TeamCopies {
 public:
  /// `arrived`: a word of shared memory for each warp of the team, aligned to 8 bytes; `member`:
  /// this warp's. A barrier must follow before wait().
  __device__ __forceinline__ TeamCopies(uint64_t* arrived, int member) {
#if CHIMERE_BULK_COPIES
    arrived_ = static_cast<uint32_t>(__cvta_generic_to_shared(arrived));
    member_ = member;
    if (threadIdx.x % kWarp == 0) {
      begin_barriers(arrived_ + 8 * static_cast<uint32_t>(member), 1);
    }
    __syncwarp();
#else
    static_cast<void>(arrived);
    static_cast<void>(member);
#endif
  }

  /// Starts copying kRows consecutive rows, the first of them row `first` of those at `from`, of
  /// `bytes` each, to rows `stride` bytes apart at `to`. In place of rows after `last`, copies row
  /// `last`. Addresses and sizes are multiples of 16. At most once before each wait().
  template <int kRows>
  __device__ __forceinline__ void begin_rows(uint8_t* to, int stride, const uint8_t* from,
                                             int bytes, int first, int last) {
#if CHIMERE_BULK_COPIES
    const auto i = static_cast<int>(threadIdx.x % kWarp);
    const uint32_t arrived = arrived_ + 8 * static_cast<uint32_t>(member_);
    if (i == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived),
                   "r"(kRows * bytes)
                   : "memory");
    }
    __syncwarp();
    if (i < kRows) {
      bulk_copy(to + i * stride, from + static_cast<int64_t>(min(first + i, last)) * bytes, bytes,
                arrived);
    }
#else
#pragma unroll 1
    for (int i = 0; i < kRows; ++i) {
      copy_rows(to + i * stride, from + static_cast<int64_t>(min(first + i, last)) * bytes, bytes);
    }
#endif
  }

  /// Waits for the copies of the team's warps; `begun`: they have begun some since the last wait().
  __device__ __forceinline__ void wait(bool begun) {
#if CHIMERE_BULK_COPIES
    if (!begun) return;
    const uint32_t lane = threadIdx.x % kWarp;
    bool done = lane >= kTeam;
    do {
      if (!done) done = phase_completes(arrived_ + 8 * lane, phase_);
    } while (__all_sync(kFullWarp, done) == 0);
    __syncwarp();
    phase_ ^= 1U;
#else
    static_cast<void>(begun);
    wait_for_copies();
    __syncthreads();
#endif
  }

 private:
#if CHIMERE_BULK_COPIES
  uint32_t arrived_;
  int member_;
  uint32_t phase_ = 0;
#endif
};

/// Orders this thread's earlier accesses of shared memory before bulk copies that start after the
/// next barrier.
__device__ __forceinline__ void before_bulk_copies() {
#if CHIMERE_BULK_COPIES
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_BULK_COPY_H_
