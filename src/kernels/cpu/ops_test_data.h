// CpuOps with every instruction set that this processor supports.
#ifndef CHIMERE_KERNELS_CPU_OPS_TEST_DATA_H_
#define CHIMERE_KERNELS_CPU_OPS_TEST_DATA_H_

#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"

namespace chimere::kernels::test {

struct CpuVariant {
  std::string name;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
};

/// Every instruction set of this processor with 1, 2 and 3 threads.
inline const std::vector<CpuVariant>& cpu_variants() {
  static const std::vector<CpuVariant> variants = [] {
    std::vector<CpuVariant> v;
    for (const CpuIsa set : usable_cpu_isas()) {
      for (int threads = 1; threads <= 3; ++threads) {
        auto pool = std::make_unique<ThreadPool>(threads);
        auto ops = make_cpu_ops(*pool, set);
        v.push_back({cpu_isa_name(set) + std::string(" threads ") + std::to_string(threads),
                     std::move(pool), std::move(ops)});
      }
    }
    return v;
  }();
  return variants;
}

}  // namespace chimere::kernels::test

#endif  // CHIMERE_KERNELS_CPU_OPS_TEST_DATA_H_
