// Time of the sequence mixers and of the small kernels of a step on the first GPU, at the shapes
// of a 35B-A3B model, with the bytes that each must move and the resulting rate. Launches are
// captured in a graph and replayed, as in the engine. Steps go through 30 layers, each with its own
// states, so that these are read from device memory, as are attention's keys and values. "After a
// norm": the time of a norm and the op, less that of the norm; delta nets back to back would
// overlap too much. "Norms, router": an op with all small kernels of its layer, which evict each
// other's instructions from the caches.
//
//   cuda_mixer_bench [PROFILE]     as --cuda-profile of chimere
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/batch_test_data.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/profile.h"
#include "kernels/cuda/gdn.h"
#include "kernels/cuda/linear_decode.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/rows.h"
#include "kernels/rope.h"

namespace {

using chimere::DType;
using chimere::MatrixView;
using chimere::MemoryRange;
using chimere::Status;
using namespace chimere::kernels;  // NOLINT(google-build-using-namespace): a program of one file
using namespace chimere::kernels::cuda;  // NOLINT(google-build-using-namespace): likewise

void ok_or_end(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(EXIT_FAILURE);
}

/// GPU memory for the lifetime of the program, filled with small random floats.
class Gpu {
 public:
  explicit Gpu(Profile profile) {
    auto gpu = open_cuda_device(0, profile);
    if (!gpu.ok()) ok_or_end(gpu.error());
    device_ = *std::move(gpu);
    std::printf("%s, profile %s\n", device_->facts().name.c_str(),
                std::string(profile_name(profile)).c_str());
  }

  Device& device() const { return *device_; }

  /// Bytes a second of a copy within the GPU, read and written, as `chimere bench` measures it.
  double copy_bandwidth() {
    if (copy_bandwidth_ > 0) return copy_bandwidth_;
    constexpr int64_t kBytes = int64_t{128} << 20;
    uint8_t* from = zeros(kBytes);
    uint8_t* to = zeros(kBytes);
    Stream& stream = device_->stream();
    copy_bandwidth_ = 2.0 * kBytes / time([&] { stream.copy(to, from, kBytes); }, 16);
    return copy_bandwidth_;
  }

  /// Seconds of one call of `launch`, which receives the numbers 0, 1, ... repeatedly: the median
  /// of many rounds.
  double median(const std::function<void(int)>& launch, int numbers) const {
    constexpr int kCalls = 240;
    Stream& stream = device_->stream();
    stream.begin_capture();
    for (int i = 0; i < kCalls; ++i) launch(i % numbers);
    const std::unique_ptr<Graph> graph = stream.end_capture();
    if (graph == nullptr) ok_or_end(stream.synchronize());
    std::vector<double> seconds;
    for (int run = 0; run < 15; ++run) {
      ok_or_end(stream.synchronize());
      const auto begin = std::chrono::steady_clock::now();
      stream.replay(*graph);
      ok_or_end(stream.synchronize());
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      seconds.push_back(passed.count() / kCalls);
    }
    std::ranges::nth_element(seconds, seconds.begin() + 7);
    return seconds[7];
  }

  template <class T>
  T* put(const std::vector<T>& values) {
    auto* at = reinterpret_cast<T*>(take(values.size() * sizeof(T)));
    ok_or_end(device_->write(at, values.data(), values.size() * sizeof(T)));
    return at;
  }
  uint8_t* zeros(int64_t bytes) {
    uint8_t* at = take(static_cast<size_t>(bytes));
    ok_or_end(device_->clear(at, static_cast<size_t>(bytes)));
    return at;
  }
  MatrixView matrix(int64_t rows, int64_t cols) {
    test::Rng rng(1);
    return {put(test::normal_floats(rng, rows * cols, 0.5F)), rows, cols, cols};
  }

  /// Seconds of one call of `launch`.
  double time(const std::function<void()>& launch, int count) const {
    Stream& stream = device_->stream();
    stream.begin_capture();
    for (int i = 0; i < count; ++i) launch();
    const std::unique_ptr<Graph> graph = stream.end_capture();
    if (graph == nullptr) ok_or_end(stream.synchronize());
    double best = 1e9;
    for (int run = 0; run < 5; ++run) {
      ok_or_end(stream.synchronize());
      const auto begin = std::chrono::steady_clock::now();
      stream.replay(*graph);
      ok_or_end(stream.synchronize());
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      best = std::min(best, seconds.count() / count);
    }
    return best;
  }

 private:
  uint8_t* take(size_t bytes) {
    auto range = device_->reserve(bytes);
    if (!range.ok()) ok_or_end(range.error());
    ok_or_end((*range)->commit(bytes));
    ranges_.push_back(*std::move(range));
    return ranges_.back()->data();
  }

  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<MemoryRange>> ranges_;
  double copy_bandwidth_ = 0;
};

void print(const std::string& what, double seconds, double bytes) {
  std::printf("%-44s %9.2f us  %8.2f MB  %7.0f GB/s\n", what.c_str(), seconds * 1e6, bytes * 1e-6,
              bytes / seconds * 1e-9);
}

void print_share(Gpu& gpu, const std::string& what, double seconds, double bytes) {
  std::printf("%-44s %9.2f us  %8.3f MB  %5.1f %% of copy\n", what.c_str(), seconds * 1e6,
              bytes * 1e-6, 100 * bytes / seconds / gpu.copy_bandwidth());
}

/// Sequences with the same rows each, after `start` positions; states are updated in place.
DeviceBatch put_batch(Gpu& gpu, int n_sequences, RowClass row_class, int rows, int start) {
  std::vector<test::SequenceSpec> sequences;
  int32_t pages = 0;
  for (int i = 0; i < n_sequences; ++i) {
    test::SequenceSpec s;
    s.start = start;
    s.read_slot = i;
    const int most = row_class == RowClass::kPrefill ? kMaxChunkRows : rows;
    for (int done = 0; done < rows; done += most) s.slices.emplace_back(row_class, most);
    s.write_slots.assign(static_cast<size_t>(rows), -1);
    s.write_slots.back() = i;
    while (static_cast<int>(s.pages.size()) * kKvPageTokens < start + rows) {
      s.pages.push_back(pages++);
    }
    sequences.push_back(s);
  }
  const test::Batch batch(sequences);
  const BatchView v = batch.view();
  std::vector<SliceArgs> slices;
  for (const Slice& s : v.slices) {
    slices.push_back({s.sequence, s.row_begin, s.row_count, static_cast<int32_t>(s.row_class)});
  }
  auto put = [&gpu](std::span<const int32_t> values) {
    return gpu.put(std::vector<int32_t>(values.begin(), values.end()));
  };
  std::vector<int32_t> visible;
  for (int32_t r = 0; r < v.n_rows; ++r) visible.push_back(v.visible(r));
  return {
      {gpu.put(slices), put(v.sequence_slices), put(v.row_sequence), put(v.row_position),
       gpu.put(visible), put(v.read_slot), put(v.write_slot), put(v.page_table), put(v.page_begin),
       /*no rows to fold or keep*/ nullptr, nullptr, nullptr, nullptr},
      extent_of(v)};
}

/// The small kernels between the matrix products of a step, and their operands.
class RowOps {
 public:
  RowOps(Gpu& gpu, int rows)
      : gpu_(gpu),
        rows_(rows),
        x_(gpu.matrix(rows, kEmbd)),
        y_(gpu.matrix(rows, kEmbd)),
        heads_(gpu.matrix(rows, int64_t{kHeads} * kHeadDim)),
        z_(gpu.matrix(rows, int64_t{kHeads} * kHeadDim)),
        weights_(gpu.matrix(kExperts + 1, kEmbd)),
        logits_(gpu.matrix(rows, kExperts)),
        shared_(gpu.matrix(rows, 1)),
        rounded_(tiled_rounded_rows_at(gpu.zeros(tiled_rounded_bytes(rows, heads_.cols)), rows,
                                       heads_.cols)),
        routing_({kUsed, reinterpret_cast<int32_t*>(gpu.zeros(int64_t{4} * kUsed * rows)),
                  reinterpret_cast<float*>(gpu.zeros(int64_t{4} * kUsed * rows))}) {}

  void norm() const { rms_norm(stream(), x_, weights_.data, 1e-6F, y_, rounded_); }
  void gated_norm() const {
    gated_rms_norm(stream(), heads_, z_, weights_.data, kHeadDim, 1e-6F, heads_, rounded_);
  }
  void router() const {
    const std::vector<LinearJob> jobs = {
        {{DType::kF32, kExperts, kEmbd, weights_.data}, logits_},
        {{DType::kF32, 1, kEmbd, weights_.data + int64_t{kExperts} * kEmbd}, shared_}};
    linear_decode(stream(), gpu_.device().facts(), x_, {}, {nullptr, rows_}, nullptr, jobs);
  }
  void route() const { cuda::route(stream(), logits_, {}, routing_); }

  void time() const {
    show("rms_norm", (2.0 * rows_ + 1) * kEmbd, [this] { norm(); });
    show("gated_rms_norm", 3.0 * kHeads * kHeadDim * rows_, [this] { gated_norm(); });
    show("route", (kExperts + 2.0 * kUsed) * rows_, [this] { route(); });
    show("linear_float", (kExperts + 1.0) * (kEmbd + rows_) + 1.0 * kEmbd * rows_,
         [this] { router(); });
  }

 private:
  static constexpr int kEmbd = 2048;
  static constexpr int kHeads = 32;
  static constexpr int kHeadDim = 128;
  static constexpr int kExperts = 256;
  static constexpr int kUsed = 8;

  Stream& stream() const { return gpu_.device().stream(); }
  void show(const std::string& what, double floats, const std::function<void()>& launch) const {
    print_share(gpu_, what + ", " + std::to_string(rows_) + " rows",
                gpu_.median([&](int /*layer*/) { launch(); }, 1), 4 * floats);
  }

  Gpu& gpu_;
  int rows_;
  MatrixView x_;
  MatrixView y_;
  MatrixView heads_;
  MatrixView z_;
  MatrixView weights_;
  MatrixView logits_;
  MatrixView shared_;
  RoundedRows rounded_;
  Routing routing_;
};

/// Layers with separate states.
constexpr int kLayers = 30;

void time_delta_net(Gpu& gpu, int n_sequences, RowClass row_class, int rows) {
  GdnShape shape;
  shape.n_k_heads = 16;
  shape.n_v_heads = 32;
  shape.head_dim = 128;
  const DeviceBatch batch = put_batch(gpu, n_sequences, row_class, rows, 0);
  const int64_t n = batch.extent.n_rows;
  test::Rng rng(2);
  const int64_t stride = shape.scan_state_floats();
  const bool step = row_class == RowClass::kDecode;
  const int layers = step ? kLayers : 1;
  const int64_t layer_floats = stride * n_sequences;
  const GdnOperands operands = {
      gpu.put(test::normal_floats(rng, int64_t{shape.conv_dim()} * shape.conv_kernel)),
      {reinterpret_cast<float*>(gpu.zeros(4 * layer_floats * layers)), stride},
      gpu.put(std::vector<float>(static_cast<size_t>(shape.n_v_heads), -1.0F)),
      gpu.put(test::normal_floats(rng, shape.n_v_heads)),
      {reinterpret_cast<float*>(gpu.zeros(4 * layer_floats * layers)), stride},
      gpu.put(test::normal_floats(rng, shape.head_dim)),
      1e-6F};
  const MatrixView qkv = gpu.matrix(n, shape.conv_dim());
  const MatrixView alpha = gpu.matrix(n, shape.n_v_heads);
  const MatrixView z = gpu.matrix(n, shape.value_dim());
  const MatrixView out = gpu.matrix(n, shape.value_dim());
  uint8_t* scratch = gpu.zeros(gdn_scratch_bytes(shape, batch.extent));
  auto* barriers =
      reinterpret_cast<uint32_t*>(gpu.zeros(int64_t{4} * n_sequences * shape.n_k_heads));
  const RowOps others(gpu, static_cast<int>(n));
  const RoundedRows rounded =
      tiled_rounded_rows_at(gpu.zeros(tiled_rounded_bytes(n, out.cols)), n, out.cols);
  Stream& stream = gpu.device().stream();
  auto mix = [&](int layer) {
    GdnOperands o = operands;
    o.conv_state.base += layer * layer_floats;
    o.scan_state.base += layer * layer_floats;
    gdn_mix(stream, batch, shape, o, qkv, alpha, alpha, z, out, rounded, scratch, barriers);
  };
  const double row_floats = 2.0 * shape.conv_dim() + 2.0 * shape.value_dim();
  const double bytes =
      4 * (2.0 * static_cast<double>(stride) * n_sequences + row_floats * static_cast<double>(n));
  const std::string what = "gdn_mix, " + std::to_string(n_sequences) + " sequences of " +
                           std::to_string(rows) + (step ? " decode rows" : " prefill rows");
  if (!step) {
    print(what, gpu.time([&] { mix(0); }, 3), bytes);
    return;
  }
  print_share(gpu, what, gpu.median(mix, layers), bytes);
  const double norms = gpu.median([&](int /*layer*/) { others.norm(); }, layers);
  const double both = gpu.median(
      [&](int layer) {
        others.norm();
        mix(layer);
      },
      layers);
  print_share(gpu, what + ", after a norm", both - norms, bytes);
  const double all = gpu.median(
      [&](int layer) {
        others.norm();
        mix(layer);
        others.norm();
        others.router();
        others.route();
      },
      layers);
  print_share(gpu, what + ", norms, router", all, bytes);
}

/// Rows after `start` positions. Each launch has its own keys and values, so that they are read
/// from device memory as in a model of many layers.
void time_attention(Gpu& gpu, int n_sequences, RowClass row_class, int rows, int start,
                    DType k_type, DType v_type) {
  AttentionShape shape;
  shape.n_heads = 16;
  shape.n_kv_heads = 2;
  shape.head_dim = 256;
  shape.rope_dims = 64;
  shape.scale = 1.0F / 16;
  const bool step = row_class == RowClass::kDecode;
  const DeviceBatch batch = put_batch(gpu, n_sequences, row_class, rows, start);
  const int64_t n = batch.extent.n_rows;
  const int multiprocessors = gpu.device().facts().multiprocessors;
  const int64_t pages = (start + rows + kKvPageTokens - 1) / kKvPageTokens * int64_t{n_sequences};
  const KvView kv = {nullptr, cuda::kv_page_bytes(shape, k_type, v_type), k_type, v_type};
  const int64_t layer_bytes = pages * kv.page_bytes;
  const auto layers =
      static_cast<int>(step ? std::clamp<int64_t>(256'000'000 / layer_bytes, 1, 240) : 1);
  uint8_t* memory = gpu.zeros(layers * layer_bytes);
  const MatrixView qg = gpu.matrix(n, int64_t{2} * shape.n_heads * shape.head_dim);
  const MatrixView k = gpu.matrix(n, int64_t{shape.n_kv_heads} * shape.head_dim);
  const MatrixView out = gpu.matrix(n, int64_t{shape.n_heads} * shape.head_dim);
  const float* norm = gpu.put(std::vector<float>(256, 1.0F));
  const double* frequencies = gpu.put(rope_frequencies(shape.rope_dims, shape.rope_base));
  auto* rope = reinterpret_cast<float*>(gpu.zeros(4 * n * shape.rope_dims));
  uint8_t* scratch = gpu.zeros(attend_scratch_bytes(shape, batch.extent, multiprocessors) + 16);
  Stream& stream = gpu.device().stream();
  rope_table(stream, batch, shape.rope_dims, frequencies, rope);
  auto layer_of = [&](int layer) {
    KvView view = kv;
    view.base = memory + layer * layer_bytes;
    return view;
  };
  auto add_rows = [&](int layer) {
    qk_norm_rope_append(stream, batch, shape, rope, norm, norm, 1e-6F, qg, k, k, layer_of(layer));
  };
  auto read_rows = [&](int layer) {
    attend(stream, batch, shape, qg, layer_of(layer), out, {}, multiprocessors,
           gpu.device().facts().shared_bytes, scratch);
  };
  const std::string what = std::string("attend ") + std::string(dtype_name(k_type)) + "/" +
                           std::string(dtype_name(v_type)) + ", " + std::to_string(n_sequences) +
                           " x " + std::to_string(rows) + (step ? " step" : " chunk") +
                           " rows after " + std::to_string(start);
  const auto bytes = static_cast<double>(layer_bytes);
  if (!step) {
    print(what, gpu.time([&] { read_rows(0); }, 3), bytes);
    return;
  }
  print_share(gpu, what, gpu.median(read_rows, layers), bytes);
  const double append = gpu.median(add_rows, layers);
  const double both = gpu.median(
      [&](int layer) {
        add_rows(layer);
        read_rows(layer);
      },
      layers);
  print_share(gpu, "  after an append of " + std::to_string(append * 1e6) + " us", both - append,
              bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const auto profile = parse_profile(argc > 1 ? argv[1] : "native");
  if (!profile.ok()) ok_or_end(profile.error());
  Gpu gpu(*profile);
  for (const int sequences : {1, 8, 32}) time_delta_net(gpu, sequences, RowClass::kDecode, 1);
  time_delta_net(gpu, 1, RowClass::kDecode, 4);
  for (const int rows : {1, 8, 32}) RowOps(gpu, rows).time();
  time_delta_net(gpu, 1, RowClass::kPrefill, 512);
  time_delta_net(gpu, 1, RowClass::kPrefill, 4096);
  constexpr std::pair<DType, DType> kTypes[] = {{DType::kF16, DType::kF16},
                                                {DType::kQ8_0, DType::kQ4_0}};
  for (const auto& [k_type, v_type] : kTypes) {
    auto decode_rows = [&, k = k_type, v = v_type](int sequences, int rows, int start) {
      time_attention(gpu, sequences, RowClass::kDecode, rows, start, k, v);
    };
    for (const int start : {127, 4095, 31999}) decode_rows(1, 1, start);
    for (const int start : {127, 4095}) decode_rows(8, 1, start);
    decode_rows(32, 1, 127);
    decode_rows(1, 4, 4092);
  }
  for (const auto& [rows, start] : {std::pair{512, 0}, std::pair{4096, 0}, std::pair{512, 32000}}) {
    time_attention(gpu, 1, RowClass::kPrefill, rows, start, DType::kQ8_0, DType::kQ4_0);
  }
  return 0;
}
