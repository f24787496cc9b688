// compare_encoders LIBGGML_BASE MODEL [IMATRIX [FORMAT ...]]: our encoders beside llama.cpp's on
// the tensors of a model. Twenty weight matrices (at most 128 rows of each) are encoded by both in
// every format, without importance and, if there is an importance matrix, with it. The table has
// the weighted squared error relative to the weighted squares, as the mean over tensors, the number
// of tensors on which ours is larger, and millions of weights a second on one thread. Exits with 1
// if the mean of one of our errors is larger.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "gguf/reader.h"
#include "quant/quant.h"
#include "quantize/importance.h"
#include "quantize/plan.h"
#include "tensor/dtype.h"

namespace {

using chimere::DType;
using Encode = size_t (*)(int type, const float* values, void* blocks, int64_t start, int64_t rows,
                          int64_t columns, const float* importance);

constexpr DType kTypes[] = {
    DType::kQ4_0,    DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1,    DType::kQ8_0,  DType::kQ2_K,
    DType::kQ3_K,    DType::kQ4_K,   DType::kQ5_K,  DType::kQ6_K,    DType::kIQ1_S, DType::kIQ1_M,
    DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ4_NL,
    DType::kIQ4_XS,  DType::kMXFP4,  DType::kTQ1_0, DType::kTQ2_0};
constexpr size_t kTensors = 20;
constexpr int64_t kRows = 128;

struct Sample {
  int64_t columns = 0;
  std::vector<float> x;
  std::vector<float> importance;  // of each column; empty without an importance matrix

  int64_t rows() const { return static_cast<int64_t>(x.size()) / columns; }
};

// Relative to the squares, both weighted by `importance` (nullptr: all alike).
double relative_error(DType type, const std::vector<uint8_t>& blocks, const Sample& s,
                      const float* importance) {
  std::vector<float> y(s.x.size());
  chimere::quant::decode(type, blocks.data(), y.data(), static_cast<int64_t>(y.size()));
  const auto columns = static_cast<size_t>(s.columns);
  double norm = 0;
  double error = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double w = importance == nullptr ? 1.0 : double{importance[i % columns]};
    const double d = double{s.x[i]} - double{y[i]};
    norm += w * double{s.x[i]} * double{s.x[i]};
    error += w * d * d;
  }
  return norm > 0 ? error / norm : 0;
}

// Of the tensors whose rows are whole super-blocks and, if there is an importance matrix, that it
// has.
chimere::Result<std::vector<Sample>> samples_of(const std::string& path,
                                                const std::string& imatrix) {
  using namespace chimere;  // NOLINT(google-build-using-namespace): a small program
  CHIMERE_TRY(const auto file, gguf::Reader::open(path));
  quantize::ImportanceMatrix importance;
  if (!imatrix.empty()) {
    CHIMERE_TRY(importance, quantize::load_importance(imatrix));
  }
  CHIMERE_TRY(const auto plan, quantize::plan_uniform(*file, DType::kQ4_K, {}));
  std::vector<const quantize::PlannedTensor*> fitting;
  for (const auto& t : plan.tensors) {
    const bool measured = imatrix.empty() || importance.tensors.contains(t.source->name);
    if (!t.fixed && t.n_in() % 256 == 0 && measured) fitting.push_back(&t);
  }
  std::vector<Sample> out;
  const size_t count = std::min(kTensors, fitting.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& t = *fitting[i * fitting.size() / count];
    const int64_t rows = std::min(kRows, t.rows() / t.matrices());
    Sample s;
    s.columns = t.n_in();
    s.x.resize(static_cast<size_t>(rows * s.columns));
    quant::decode(t.source->type, t.source->data, s.x.data(), rows * s.columns);
    CHIMERE_TRY(s.importance, importance.weights(t.source->name, t.n_in(), t.matrices()));
    if (!imatrix.empty()) s.importance.resize(static_cast<size_t>(s.columns), 1.0F);
    out.push_back(std::move(s));
  }
  return out;
}

class LlamaCpp {
 public:
  /// False if the library lacks a function; says which.
  bool open(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "compare_encoders: %s\n", dlerror());
      return false;
    }
    encode_ = reinterpret_cast<Encode>(dlsym(library, "ggml_quantize_chunk"));
    demands_importance_ =
        reinterpret_cast<bool (*)(int)>(dlsym(library, "ggml_quantize_requires_imatrix"));
    if (encode_ != nullptr && demands_importance_ != nullptr) return true;
    std::fprintf(stderr,
                 "compare_encoders: %s lacks ggml_quantize_chunk or "
                 "ggml_quantize_requires_imatrix\n",
                 path);
    return false;
  }

  void encode(DType type, const Sample& s, const float* importance,
              std::vector<uint8_t>& blocks) const {
    encode_(static_cast<int>(type), s.x.data(), blocks.data(), 0, s.rows(), s.columns, importance);
  }
  bool demands_importance(DType type) const { return demands_importance_(static_cast<int>(type)); }

 private:
  Encode encode_ = nullptr;
  bool (*demands_importance_)(int) = nullptr;
};

// One format: sums over tensors.
struct Comparison {
  double ours = 0;
  double theirs = 0;
  size_t larger = 0;  // tensors
  double our_seconds = 0;
  double their_seconds = 0;
  bool encoded = true;
};

chimere::Status encode_ours(DType type, const Sample& s, const float* importance,
                            std::vector<uint8_t>& blocks) {
  const auto row_bytes = static_cast<size_t>(chimere::row_bytes(type, s.columns));
  for (int64_t r = 0; r < s.rows(); ++r) {
    CHIMERE_CHECK_OK(chimere::quant::encode(type, s.x.data() + r * s.columns,
                                            blocks.data() + static_cast<size_t>(r) * row_bytes,
                                            s.columns, importance));
  }
  return {};
}

// Without importance llama.cpp's error is the smaller of two: it weights elements by their size if
// it gets no importance, and less so if that of all columns is 1.
Comparison compare(DType type, const LlamaCpp& peer, const std::vector<Sample>& samples,
                   bool weighted) {
  Comparison sum;
  for (const Sample& s : samples) {
    const float* importance = weighted ? s.importance.data() : nullptr;
    const auto row_bytes = static_cast<size_t>(chimere::row_bytes(type, s.columns));
    std::vector<uint8_t> blocks(static_cast<size_t>(s.rows()) * row_bytes);
    const std::vector<float> alike(static_cast<size_t>(s.columns), 1.0F);
    const chimere::Stopwatch their_clock;
    peer.encode(type, s, weighted ? importance : alike.data(), blocks);
    sum.their_seconds += their_clock.seconds();
    double theirs = relative_error(type, blocks, s, importance);
    if (!weighted && !peer.demands_importance(type)) {
      peer.encode(type, s, nullptr, blocks);
      theirs = std::min(theirs, relative_error(type, blocks, s, importance));
    }
    const chimere::Stopwatch our_clock;
    sum.encoded = encode_ours(type, s, importance, blocks).ok() && sum.encoded;
    sum.our_seconds += our_clock.seconds();
    const double ours = relative_error(type, blocks, s, importance);
    sum.ours += ours;
    sum.theirs += theirs;
    sum.larger += ours > theirs ? 1 : 0;
  }
  return sum;
}

bool print_row(DType type, const LlamaCpp& peer, const std::vector<Sample>& samples,
               bool has_importance) {
  const chimere::DTypeInfo& info = chimere::dtype_info(type);
  std::printf("| %s | %.4f |", std::string(info.name).c_str(),
              8.0 * info.block_bytes / info.block_elements);
  const auto tensors = static_cast<double>(samples.size());
  double weights = 0;
  for (const Sample& s : samples) weights += static_cast<double>(s.x.size());
  bool ok = true;
  Comparison sum;
  for (const bool weighted : {false, true}) {
    if (weighted && !has_importance) break;
    sum = compare(type, peer, samples, weighted);
    ok = ok && sum.encoded && sum.ours <= sum.theirs;
    std::printf(" %.6f | %.6f | %.3f | %zu |", sum.ours / tensors, sum.theirs / tensors,
                sum.ours / sum.theirs, sum.larger);
  }
  std::printf(" %.2f | %.2f |%s\n", weights / sum.our_seconds / 1e6,
              weights / sum.their_seconds / 1e6, ok ? "" : " LARGER");
  std::fflush(stdout);
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: compare_encoders LIBGGML_BASE MODEL [IMATRIX [FORMAT ...]]\n", stderr);
    return 2;
  }
  LlamaCpp peer;
  if (!peer.open(argv[1])) return 1;
  const bool has_importance = argc > 3;
  const auto samples = samples_of(argv[2], has_importance ? argv[3] : "");
  if (!samples.ok()) {
    std::fprintf(stderr, "compare_encoders: %s\n", samples.error().message.c_str());
    return 1;
  }
  std::printf(
      "%zu tensors. Squared error relative to squares, ours and llama.cpp's, without importance%s; "
      "tensors on which ours is larger; Mweights/s.\n",
      samples->size(), has_importance ? " and with it" : "");
  bool ok = samples->size() == kTensors;
  if (!ok) std::printf("The model has fewer than %zu such tensors.\n", kTensors);
  std::vector<DType> types(std::begin(kTypes), std::end(kTypes));
  if (argc > 4) types.clear();
  for (int i = 4; i < argc; ++i) {
    const auto type = chimere::parse_dtype(argv[i]);
    if (!type) {
      std::fprintf(stderr, "compare_encoders: '%s' is not a format\n", argv[i]);
      return 2;
    }
    types.push_back(*type);
  }
  for (const DType type : types) ok = print_row(type, peer, *samples, has_importance) && ok;
  return ok ? 0 : 1;
}
