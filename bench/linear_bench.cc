// Speed of matrix products by weight format, as Markdown tables. With weights streamed from memory:
// GB/s of weights with one activation row (decode), the fraction of the read bandwidth of the same
// threads, and the time of two and of four rows relative to one (verification, batches). With
// weights in cache: GMAC/s of 16 rows (what an expert gets of a prompt) and of 64 (prefill).
//
//   linear_bench [threads] [n_in] [megabytes] [type, or all] [instruction set]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_test_data.h"

namespace {

using chimere::DType;
using chimere::ThreadPool;
using chimere::kernels::CpuIsa;
using chimere::kernels::test_data::all_weight_types;
using chimere::kernels::test_data::Random;

/// Weight bytes that a timed product reads.
constexpr size_t kPiece = size_t{4} << 20;
/// Outputs and rows of the product with many rows.
constexpr int64_t kManyOutputs = 512;
constexpr int64_t kManyRows = 64;
constexpr int64_t kFewRows = 16;

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The 10th percentile of the times, which other processes disturb least.
double undisturbed(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 10];
}

/// Seconds of f(first byte) for a piece of a buffer that is much larger than the caches.
double streaming(const std::vector<uint8_t>& bytes, size_t piece,
                 const std::function<void(const uint8_t*)>& f) {
  std::vector<double> times;
  for (size_t i = 0; i + piece <= bytes.size(); i += piece) {
    times.push_back(seconds([&] { f(bytes.data() + i); }));
  }
  return undisturbed(std::move(times));
}

double read_bandwidth(ThreadPool& pool, const std::vector<uint8_t>& bytes) {
  constexpr int64_t kPart = 65536;
  std::vector<uint64_t> sums(static_cast<size_t>(pool.size()));
  const auto parts = static_cast<int64_t>(kPiece) / kPart;
  const double time = streaming(bytes, kPiece, [&](const uint8_t* p) {
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end, int worker) {
      uint64_t sum = 0;
      for (int64_t i = begin * kPart; i < end * kPart; i += 8) {
        uint64_t v;
        std::memcpy(&v, p + i, 8);
        sum += v;
      }
      sums[static_cast<size_t>(worker)] += sum;
    });
  });
  volatile uint64_t keep = sums[0];
  static_cast<void>(keep);
  return static_cast<double>(kPiece) / time;
}

/// Fills the buffer with valid rows: a piece of random ones, repeated.
void fill(Random& random, DType type, int64_t n_in, std::vector<uint8_t>& w) {
  const int64_t row = chimere::row_bytes(type, n_in);
  const std::vector<uint8_t> piece =
      random.weights(type, std::max<int64_t>(1, (1 << 19) / row), n_in);
  for (size_t i = 0; i < w.size(); i += piece.size()) {
    std::memcpy(w.data() + i, piece.data(), std::min(piece.size(), w.size() - i));
  }
}

struct Bench {
  ThreadPool& pool;
  int64_t n_in;
  double read;
  std::vector<float> x;
  std::vector<float> y;

  void row(CpuIsa isa, DType type, const std::vector<uint8_t>& w) {
    chimere::kernels::cpu::LinearEngine engine(pool, isa);
    const auto multiply = [&](const uint8_t* weights, int64_t rows, int64_t n_out) {
      y.resize(static_cast<size_t>(rows * n_out));
      const chimere::kernels::LinearJob job{
          {type, n_out, n_in, weights}, {y.data(), rows, n_out, n_out}, false};
      engine.linear({x.data(), rows, n_in, n_in}, {&job, 1});
    };
    const int64_t row_bytes = chimere::row_bytes(type, n_in);
    const int64_t n_out = static_cast<int64_t>(kPiece) / row_bytes;
    const auto piece = static_cast<size_t>(n_out * row_bytes);
    double times[3];
    for (int k = 0; k < 3; ++k) {
      times[k] = streaming(w, piece, [&](const uint8_t* p) { multiply(p, 1 << k, n_out); });
    }
    const auto in_cache = [&](int64_t rows) {
      std::vector<double> many;
      for (int i = 0; i < 20; ++i) {
        many.push_back(seconds([&] { multiply(w.data(), rows, kManyOutputs); }));
      }
      return static_cast<double>(rows * kManyOutputs * n_in) * 1e-9 / undisturbed(std::move(many));
    };
    const double speed = static_cast<double>(piece) / times[0];
    std::printf("| %s | %.4g | %.1f | %.0f %% | %.1f | %.2f | %.2f | %.0f | %.0f |\n",
                std::string(chimere::dtype_name(type)).c_str(),
                8.0 * static_cast<double>(row_bytes) / static_cast<double>(n_in), speed * 1e-9,
                100 * speed / read, static_cast<double>(n_out * n_in) / times[0] * 1e-9,
                times[1] / times[0], times[2] / times[0], in_cache(kFewRows), in_cache(kManyRows));
    std::fflush(stdout);
  }
};

int64_t argument(int argc, char** argv, int i, int64_t otherwise) {
  return argc > i ? std::atoll(argv[i]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<int>(argument(argc, argv, 1, chimere::available_cpus()));
  const int64_t n_in = argument(argc, argv, 2, 2048);
  const int64_t bytes = argument(argc, argv, 3, 128) << 20;
  const std::string only = argc > 4 ? argv[4] : "all";
  const std::string only_isa = argc > 5 ? argv[5] : "";
  ThreadPool pool(threads);
  Random random(1);
  std::vector<uint8_t> w(static_cast<size_t>(bytes), 1);
  Bench bench{pool, n_in, read_bandwidth(pool, w), random.activations(kManyRows, n_in), {}};
  std::printf("%d threads, rows of %lld, read bandwidth %.1f GB/s\n", threads,
              static_cast<long long>(n_in), bench.read * 1e-9);
  for (const CpuIsa isa : chimere::kernels::usable_cpu_isas()) {
    const std::string isa_name = chimere::kernels::cpu_isa_name(isa);
    if (only_isa.empty() ? isa == CpuIsa::kGeneric : isa_name != only_isa) continue;
    std::printf(
        "\n%s\n\n| type | bits | GB/s | of read | Gweights/s | 2 rows | 4 rows | GMAC/s, %lld rows "
        "| %lld rows |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        chimere::kernels::cpu_isa_name(isa), static_cast<long long>(kFewRows),
        static_cast<long long>(kManyRows));
    for (const DType type : all_weight_types()) {
      if (only != "all" && only != chimere::dtype_name(type)) continue;
      fill(random, type, n_in, w);
      bench.row(isa, type, w);
    }
  }
  return 0;
}
