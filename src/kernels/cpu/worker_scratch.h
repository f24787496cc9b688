// Scratch memory for the threads of a pool, kept between calls.
#ifndef CHIMERE_KERNELS_CPU_WORKER_SCRATCH_H_
#define CHIMERE_KERNELS_CPU_WORKER_SCRATCH_H_

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace chimere::kernels::cpu {

/// A growing array of floats aligned to 64 bytes; growing loses its contents.
class AlignedFloats {
 public:
  float* at_least(int64_t n) {
    if (n > size_) {
      data_.reset(static_cast<float*>(
          ::operator new(static_cast<size_t>(n) * sizeof(float), std::align_val_t(64))));
      size_ = n;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_ = 0;
};

/// One array per worker; only worker w may call get(w).
class WorkerScratch {
 public:
  explicit WorkerScratch(int n_workers) : floats_(static_cast<size_t>(n_workers)) {}
  float* get(int worker, int64_t n) { return floats_[static_cast<size_t>(worker)].at_least(n); }

 private:
  std::vector<AlignedFloats> floats_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_WORKER_SCRATCH_H_
