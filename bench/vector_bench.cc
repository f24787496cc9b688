// Time of the ops other than matrix products, at the shapes of a 35B-A3B model and of a tiny one,
// and for memory-bound ones the fraction of the copy bandwidth of the same threads.
//
//   vector_bench [threads] [isa: 0 generic, 1 avx2, 2 avx512]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/batch_test_data.h"

namespace {

using chimere::DType;
using chimere::dtype_name;
using chimere::ThreadPool;
using chimere::kernels::AttentionShape;
using chimere::kernels::CpuIsa;
using chimere::kernels::GdnShape;
using chimere::kernels::kKvPageTokens;
using chimere::kernels::KvView;
using chimere::kernels::Ops;
using chimere::kernels::RowClass;
using chimere::kernels::SelectiveShape;
using chimere::kernels::SsdShape;
using chimere::kernels::StepRows;
using chimere::kernels::test::Batch;
using chimere::kernels::test::Matrix;
using chimere::kernels::test::normal_floats;
using chimere::kernels::test::Rng;
using chimere::kernels::test::SequenceSpec;

/// Seconds of the fastest of several runs.
double fastest(const std::function<void()>& f) {
  double best = 1e9;
  double total = 0;
  for (int run = 0; run < 5 || (total < 0.5 && run < 200); ++run) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const double s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, s);
    total += s;
  }
  return best;
}

/// Shape of a cache's keys and values.
struct Types {
  DType k;
  DType v;
};

struct Bench {
  ThreadPool& pool;
  Ops& ops;
  double copy_bytes_s = 0;

  void report(const std::string& what, double seconds, double bytes) const {
    std::printf("%-44s %10.1f us", what.c_str(), seconds * 1e6);
    if (bytes > 0) {
      std::printf(" %8.1f GB/s %5.0f%% of copy", bytes / seconds * 1e-9,
                  100 * bytes / seconds / copy_bytes_s);
    }
    std::printf("\n");
  }

  /// Bandwidth of a copy larger than all caches, bytes read and written.
  void measure_copy() {
    constexpr int64_t kBytes = 256 << 20;
    std::vector<char> from(kBytes, 1);
    std::vector<char> to(kBytes, 2);
    const double s = fastest([&] {
      pool.parallel_for(256, 1, [&](int64_t begin, int64_t end, int) {
        std::memcpy(to.data() + (begin << 20), from.data() + (begin << 20), (end - begin) << 20);
      });
    });
    copy_bytes_s = 2 * kBytes / s;
    std::printf("copy %.1f GB/s\n", copy_bytes_s * 1e-9);
  }

  /// `layers` states, as many as in a model, so that caches hold as few of them.
  void delta_net(const char* name, const GdnShape& s, RowClass row_class, int rows,
                 int layers) const {
    Rng rng(1);
    SequenceSpec spec;
    spec.slices = {{row_class, rows}};
    spec.write_slots.assign(rows, -1);
    spec.write_slots.back() = 0;
    const Batch batch({spec});
    Matrix qkv(rng, rows, s.conv_dim(), 0.05F);
    const Matrix alpha(rng, rows, s.n_v_heads);
    const Matrix beta(rng, rows, s.n_v_heads);
    Matrix out(rows, s.value_dim(), 0);
    const std::vector<float> a(s.n_v_heads, -0.5F);
    const std::vector<float> dt_bias(s.n_v_heads, 0.1F);
    const std::vector<float> weight = normal_floats(rng, 4L * s.conv_dim());
    std::vector<float> scan_state = normal_floats(rng, layers * s.scan_state_floats());
    std::vector<float> conv_state = normal_floats(rng, layers * s.conv_state_floats());
    double seconds = fastest([&] {
      for (int l = 0; l < layers; ++l) {
        ops.gdn_scan(
            batch.view(), s, qkv.view(), alpha.view(), beta.view(), a.data(), dt_bias.data(),
            {scan_state.data() + l * s.scan_state_floats(), s.scan_state_floats()}, out.view());
      }
    });
    report(std::string(name) + " gdn_scan, rows " + std::to_string(rows), seconds / layers,
           8.0 * static_cast<double>(s.scan_state_floats()));
    seconds = fastest([&] {
      for (int l = 0; l < layers; ++l) {
        ops.gdn_conv(batch.view(), s, weight.data(), 1e-6F,
                     {conv_state.data() + l * s.conv_state_floats(), s.conv_state_floats()},
                     qkv.view());
      }
    });
    report(std::string(name) + " gdn_conv, rows " + std::to_string(rows), seconds / layers, 0);
  }

  /// Rows of one sequence, with `layers` states as in delta_net().
  void ssd(const char* name, const SsdShape& s, RowClass row_class, int rows, int layers) const {
    Rng rng(1);
    const Batch batch({one_slice(row_class, rows)});
    const Matrix xbc(rng, rows, s.conv_dim(), 0.05F);
    const Matrix dt(rng, rows, s.n_heads);
    Matrix out(rows, s.inner(), 0);
    const std::vector<float> a(static_cast<size_t>(s.n_heads), -0.5F);
    std::vector<float> state = normal_floats(rng, layers * s.state_floats());
    const double seconds = fastest([&] {
      for (int l = 0; l < layers; ++l) {
        ops.ssd_scan(batch.view(), s, {a.data(), a.data(), a.data()}, xbc.view(), dt.view(),
                     {state.data() + l * s.state_floats(), s.state_floats()}, out.view());
      }
    });
    report(std::string(name) + " ssd_scan, rows " + std::to_string(rows), seconds / layers,
           8.0 * static_cast<double>(s.state_floats()));
  }

  void selective(const char* name, const SelectiveShape& s, RowClass row_class, int rows,
                 int layers) const {
    Rng rng(1);
    const Batch batch({one_slice(row_class, rows)});
    const Matrix x(rng, rows, s.channels);
    const Matrix dt(rng, rows, s.channels);
    const Matrix b(rng, rows, s.state_dim);
    Matrix out(rows, s.channels, 0);
    const std::vector<float> a(static_cast<size_t>(s.state_floats()), -0.5F);
    std::vector<float> state = normal_floats(rng, layers * s.state_floats());
    const double seconds = fastest([&] {
      for (int l = 0; l < layers; ++l) {
        ops.selective_scan(batch.view(), s, {a.data(), a.data(), a.data()},
                           {x.view(), dt.view(), b.view(), b.view()},
                           {state.data() + l * s.state_floats(), s.state_floats()}, out.view());
      }
    });
    report(std::string(name) + " selective_scan, rows " + std::to_string(rows), seconds / layers,
           12.0 * static_cast<double>(s.state_floats()));
  }

  /// Rows whose last one writes the state in place.
  static SequenceSpec one_slice(RowClass row_class, int rows) {
    SequenceSpec spec;
    spec.slices = {{row_class, rows}};
    spec.write_slots.assign(static_cast<size_t>(rows), -1);
    spec.write_slots.back() = 0;
    return spec;
  }

  /// Decode rows of one sequence: a state stored after every row, and rows that are kept, after
  /// folding as many. Each layer has its own states and row blocks.
  void verification(const char* name, const GdnShape& s, int rows, int layers) const {
    for (const bool kept : {false, true}) {
      Rng rng(1);
      SequenceSpec spec;
      spec.slices = {{RowClass::kDecode, rows}};
      for (int r = 0; r < rows; ++r) {
        spec.write_slots.push_back(kept ? -1 : 1 + r);
        if (!kept) continue;
        spec.unfolded.push_back(r);
        spec.keep_rows.push_back(rows + r);
        spec.fold_from = 0;
      }
      const Batch batch({spec});
      Matrix qkv(rng, rows, s.conv_dim(), 0.05F);
      const Matrix alpha(rng, rows, s.n_v_heads);
      const Matrix beta(rng, rows, s.n_v_heads);
      Matrix out(rows, s.value_dim(), 0);
      const std::vector<float> a(s.n_v_heads, -0.5F);
      const std::vector<float> dt_bias(s.n_v_heads, 0.1F);
      const std::vector<float> weight = normal_floats(rng, 4L * s.conv_dim());
      const int64_t slots = kept ? 1 : 1 + rows;
      const int64_t blocks = kept ? 2 * rows : 1;
      std::vector<float> scan_state = normal_floats(rng, layers * slots * s.scan_state_floats());
      std::vector<float> conv_state = normal_floats(rng, layers * slots * s.conv_state_floats());
      // No denormal numbers anywhere: they are slow, and no model has them here.
      std::vector<float> scan_rows(layers * blocks * s.scan_row_floats(), 0.5F);
      std::vector<float> conv_rows(layers * blocks * s.conv_row_floats(), 0.5F);
      const Matrix inputs = qkv;
      const double seconds = fastest([&] {
        for (int64_t l = 0; l < layers; ++l) {
          std::ranges::copy(inputs.data, qkv.data.begin());
          ops.gdn_conv(
              batch.view(), s, weight.data(), 1e-6F,
              {conv_state.data() + l * slots * s.conv_state_floats(), s.conv_state_floats(),
               conv_rows.data() + l * blocks * s.conv_row_floats(), s.conv_row_floats()},
              qkv.view());
          ops.gdn_scan(
              batch.view(), s, qkv.view(), alpha.view(), beta.view(), a.data(), dt_bias.data(),
              {scan_state.data() + l * slots * s.scan_state_floats(), s.scan_state_floats(),
               scan_rows.data() + l * blocks * s.scan_row_floats(), s.scan_row_floats()},
              out.view());
        }
      });
      report(std::string(name) +
                 (kept ? " delta net, rows kept: " : " delta net, states stored: ") +
                 std::to_string(rows),
             seconds / layers, 0);
    }
  }

  /// `layers` KV caches that are already full.
  void attention(const char* name, const AttentionShape& s, Types types, int context, int rows,
                 int layers) const {
    Rng rng(1);
    SequenceSpec spec;
    spec.start = context - rows;
    spec.slices = {{rows > 1 ? RowClass::kPrefill : RowClass::kDecode, rows}};
    spec.write_slots.assign(rows, -1);
    const int pages = (context + kKvPageTokens - 1) / kKvPageTokens;
    for (int p = 0; p < pages; ++p) spec.pages.push_back(p);
    const Batch batch({spec});
    Matrix qg(rng, rows, 2L * s.n_heads * s.head_dim);
    const Matrix k(rng, rows, static_cast<int64_t>(s.n_kv_heads) * s.head_dim);
    Matrix out(rows, static_cast<int64_t>(s.n_heads) * s.head_dim, 0);
    const std::vector<float> norm(s.head_dim, 1.0F);
    const int64_t page_bytes = ops.kv_page_bytes(s, types.k, types.v);
    std::vector<uint8_t> memory(layers * pages * page_bytes, 0x11);
    auto kv = [&](int l) {
      return KvView{memory.data() + l * pages * page_bytes, page_bytes, types.k, types.v};
    };
    const std::string at = " " + std::string(dtype_name(types.k)) + "/" +
                           std::string(dtype_name(types.v)) + ", rows " + std::to_string(rows) +
                           " at " + std::to_string(context);
    double seconds = fastest([&] {
      for (int l = 0; l < layers; ++l) {
        ops.qk_norm_rope_append(batch.view(), s, norm.data(), norm.data(), 1e-6F, qg.view(),
                                k.view(), k.view(), kv(l));
      }
    });
    report(std::string(name) + " append" + at, seconds / layers, 0);
    seconds = fastest([&] {
      for (int l = 0; l < layers; ++l) ops.attend(batch.view(), s, qg.view(), kv(l), out.view());
    });
    report(std::string(name) + " attend" + at, seconds / layers,
           static_cast<double>(pages * page_bytes));
    // A multiplication and an addition for each element of a key and of a value.
    const double positions = context - (rows - 1) / 2.0;
    std::printf("%56.1f GFLOP/s\n",
                4 * positions * rows * s.n_heads * s.head_dim * layers / seconds * 1e-9);
  }

  void rows_ops(int rows, int n) const {
    Rng rng(1);
    Matrix x(rng, rows, n);
    const std::vector<float> weight(n, 1.0F);
    report("rms_norm " + std::to_string(n) + ", rows " + std::to_string(rows),
           fastest([&] { ops.rms_norm(x.view(), weight.data(), 1e-6F, x.view(), StepRows::kAll); }),
           0);
    const Matrix logits(rng, rows, 256);
    std::vector<int32_t> ids(8L * rows);
    std::vector<float> weights(8L * rows);
    report("route 8 of 256, rows " + std::to_string(rows), fastest([&] {
             ops.route(logits.view(), {}, {8, ids.data(), weights.data()});
           }),
           0);
    Matrix y(rng, rows, 4096);
    report("gated_rms_norm 32 x 128, rows " + std::to_string(rows), fastest([&] {
             ops.gated_rms_norm(y.view(), y.view(), weight.data(), 128, 1e-6F, y.view());
           }),
           0);
  }
};

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : chimere::available_cpus());
  const CpuIsa isa =
      argc > 2 ? static_cast<CpuIsa>(std::atoi(argv[2])) : chimere::kernels::best_cpu_isa();
  const auto ops = make_cpu_ops(pool, isa);
  std::printf("%d threads, %s\n", pool.size(), cpu_isa_name(isa));
  Bench bench = {pool, *ops};
  bench.measure_copy();

  GdnShape big;
  big.n_k_heads = 16;
  big.n_v_heads = 32;
  big.head_dim = 128;
  GdnShape tiny;
  tiny.n_k_heads = 2;
  tiny.n_v_heads = 4;
  tiny.head_dim = 64;
  bench.delta_net("35B", big, RowClass::kDecode, 1, 30);
  bench.delta_net("35B", big, RowClass::kDecode, 4, 30);
  bench.delta_net("35B", big, RowClass::kPrefill, 64, 4);
  bench.verification("35B", big, 4, 30);
  bench.delta_net("tiny", tiny, RowClass::kDecode, 1, 6);
  bench.delta_net("tiny", tiny, RowClass::kPrefill, 64, 6);

  SsdShape nemotron;  // Nemotron 3 Nano 30B-A3B
  nemotron.n_heads = 64;
  nemotron.head_dim = 64;
  nemotron.n_groups = 8;
  nemotron.state_dim = 128;
  bench.ssd("Nemotron", nemotron, RowClass::kDecode, 1, 23);
  bench.ssd("Nemotron", nemotron, RowClass::kPrefill, 64, 4);
  const SelectiveShape mamba = {.channels = 5120, .state_dim = 16};  // Mamba 2.8B
  bench.selective("Mamba", mamba, RowClass::kDecode, 1, 64);
  bench.selective("Mamba", mamba, RowClass::kPrefill, 64, 4);

  AttentionShape attention;
  attention.n_heads = 16;
  attention.n_kv_heads = 2;
  attention.head_dim = 256;
  attention.rope_dims = 64;
  attention.scale = 1.0F / 16;
  AttentionShape small = attention;
  small.n_heads = 4;
  small.n_kv_heads = 2;
  small.head_dim = 64;
  small.rope_dims = 16;
  small.scale = 0.125F;
  constexpr Types kHalf = {DType::kF16, DType::kF16};
  constexpr Types kSmall = {DType::kQ8_0, DType::kQ4_0};
  for (const Types& types : {kHalf, Types{DType::kQ8_0, DType::kQ8_0}, kSmall}) {
    bench.attention("35B", attention, types, 4096, 1, 20);
    bench.attention("35B", attention, types, 131072, 1, 1);
    bench.attention("35B", attention, types, 4096, 64, 1);
  }
  bench.attention("35B", attention, kSmall, 131072, 64, 1);
  bench.attention("tiny", small, kHalf, 512, 1, 2);
  bench.attention("tiny", small, kHalf, 512, 64, 2);
  bench.rows_ops(1, 2048);
  bench.rows_ops(64, 2048);
  return 0;
}
