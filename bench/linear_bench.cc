// Speed of matrix products by weight format: GB/s of weights with one activation row (decode), and
// GMAC/s with many (prompts), beside the read bandwidth of the same threads.
//
//   linear_bench [threads] [n_in] [rows] [megabytes]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/linear.h"
#include "quant/quant.h"

namespace {

using chimere::DType;
using chimere::ThreadPool;

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds of the fastest of several runs.
double fastest(const std::function<void()>& f) {
  double best = 1e9;
  double total = 0;
  for (int run = 0; run < 3 || (total < 0.3 && run < 50); ++run) {
    const double s = seconds(f);
    best = std::min(best, s);
    total += s;
  }
  return best;
}

/// Bytes per second of f(first byte, bytes) over pieces of a buffer that is much larger than the
/// caches: the tenth of the pieces that other programs disturbed least.
double bandwidth(const std::vector<uint8_t>& bytes, size_t piece,
                 const std::function<void(const uint8_t*)>& f) {
  std::vector<double> times;
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i + piece <= bytes.size(); i += piece) {
      times.push_back(seconds([&] { f(bytes.data() + i); }));
    }
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(piece) / times[times.size() / 10];
}

double read_bandwidth(ThreadPool& pool, const std::vector<uint8_t>& bytes, size_t piece) {
  std::vector<uint64_t> sums(static_cast<size_t>(pool.size()));
  const double speed = bandwidth(bytes, piece, [&](const uint8_t* p) {
    pool.parallel_for(static_cast<int64_t>(piece / 65536), 1,
                      [&](int64_t begin, int64_t end, int worker) {
                        uint64_t sum = 0;
                        for (int64_t i = begin * 65536; i < end * 65536; i += 8) {
                          uint64_t v;
                          std::memcpy(&v, p + i, 8);
                          sum += v;
                        }
                        sums[static_cast<size_t>(worker)] += sum;
                      });
  });
  volatile uint64_t keep = sums[0];
  static_cast<void>(keep);
  return speed;
}

/// Bytes of weights a timed product reads, and outputs of a product with many rows.
constexpr size_t kPiece = size_t{4} << 20;
constexpr int64_t kManyOutputs = 1024;

int64_t argument(int argc, char** argv, int i, int64_t otherwise) {
  return argc > i ? std::atoll(argv[i]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<int>(argument(argc, argv, 1, chimere::available_cpus()));
  const int64_t n_in = argument(argc, argv, 2, 2048);
  const int64_t rows = argument(argc, argv, 3, 32);
  const int64_t bytes = argument(argc, argv, 4, 512) << 20;
  ThreadPool pool(threads);
  std::mt19937_64 random(1);
  std::vector<uint8_t> w(static_cast<size_t>(bytes));
  for (size_t i = 0; i + 8 <= w.size(); i += 8) {
    // Bytes below 0x3C: every f16 is finite.
    const uint64_t v = random() & 0x3B3B3B3B3B3B3B3B;
    std::memcpy(w.data() + i, &v, 8);
  }
  std::vector<float> x(static_cast<size_t>(n_in * rows));
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
  const double read = read_bandwidth(pool, w, kPiece);
  std::printf("%d threads, rows of %lld, read bandwidth %.1f GB/s\n", threads,
              static_cast<long long>(n_in), read * 1e-9);
  for (int i = static_cast<int>(chimere::kernels::best_cpu_isa()); i > 0; --i) {
    const auto isa = static_cast<chimere::kernels::CpuIsa>(i);
    chimere::kernels::cpu::LinearEngine engine(pool, isa);
    std::printf("%-8s %-6s %10s %10s %14s\n", "isa", "type", "GB/s", "of read", "GMAC/s at rows");
    for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_K,
                          DType::kQ5_K, DType::kQ6_K, DType::kIQ3_S}) {
      const auto multiply = [&](const uint8_t* weights, int64_t n_rows, int64_t n_out, float* y) {
        const chimere::kernels::LinearJob job{
            {t, n_out, n_in, weights}, {y, n_rows, n_out, n_out}, false};
        engine.linear({x.data(), n_rows, n_in, n_in}, {&job, 1});
      };
      const int64_t row = chimere::row_bytes(t, n_in);
      const int64_t n_out = static_cast<int64_t>(kPiece) / row;
      std::vector<float> y(static_cast<size_t>(std::max(n_out, kManyOutputs * rows)));
      const auto piece = static_cast<size_t>(n_out * row);
      const double speed =
          bandwidth(w, piece, [&](const uint8_t* p) { multiply(p, 1, n_out, y.data()); });
      std::printf("%-8s %-6s %10.1f %9.0f%%", chimere::kernels::cpu_isa_name(isa),
                  std::string(chimere::dtype_name(t)).c_str(), speed * 1e-9, 100 * speed / read);
      for (int64_t r = 2; r <= rows; r *= 2) {
        std::printf(" %6.1f at %lld",
                    static_cast<double>(kManyOutputs * r * n_in) * 1e-9 /
                        fastest([&] { multiply(w.data(), r, kManyOutputs, y.data()); }),
                    static_cast<long long>(r));
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}
