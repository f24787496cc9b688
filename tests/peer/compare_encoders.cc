// compare_encoders LIBGGML_BASE MODEL [IMATRIX]: our encoders beside llama.cpp's on the tensors of
// a model. Twenty weight matrices (at most 512 rows of each) are encoded by both in every format;
// the table has the relative weighted error, as the mean over tensors, and millions of weights a
// second on one thread. Exits with 1 if one of our errors is larger.
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
constexpr int64_t kRows = 512;

struct Sample {
  int64_t columns;
  std::vector<float> x;
  std::vector<float> importance;  // of each column
};

double relative_error(DType type, const std::vector<uint8_t>& blocks, const Sample& s) {
  std::vector<float> y(s.x.size());
  chimere::quant::decode(type, blocks.data(), y.data(), static_cast<int64_t>(y.size()));
  double norm = 0;
  double error = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double w = double{s.importance[i % s.importance.size()]};
    const double d = double{s.x[i]} - double{y[i]};
    norm += w * double{s.x[i]} * double{s.x[i]};
    error += w * d * d;
  }
  return error / norm;
}

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
    if (!t.fixed && t.n_in() % 256 == 0) fitting.push_back(&t);
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
    s.importance.resize(static_cast<size_t>(s.columns), 1.0F);
    out.push_back(std::move(s));
  }
  return out;
}

bool compare(DType type, Encode theirs, const std::vector<Sample>& samples) {
  double our_error = 0;
  double their_error = 0;
  double our_seconds = 0;
  double their_seconds = 0;
  double weights = 0;
  bool ok = true;
  for (const Sample& s : samples) {
    const int64_t rows = static_cast<int64_t>(s.x.size()) / s.columns;
    const auto row_bytes = static_cast<size_t>(chimere::row_bytes(type, s.columns));
    std::vector<uint8_t> blocks(static_cast<size_t>(rows) * row_bytes);
    const chimere::Stopwatch their_clock;
    theirs(static_cast<int>(type), s.x.data(), blocks.data(), 0, rows, s.columns,
           s.importance.data());
    their_seconds += their_clock.seconds();
    their_error += relative_error(type, blocks, s) / static_cast<double>(samples.size());
    const chimere::Stopwatch our_clock;
    for (int64_t r = 0; r < rows; ++r) {
      ok = chimere::quant::encode(type, s.x.data() + r * s.columns,
                                  blocks.data() + static_cast<size_t>(r) * row_bytes, s.columns,
                                  s.importance.data())
               .ok() &&
           ok;
    }
    our_seconds += our_clock.seconds();
    our_error += relative_error(type, blocks, s) / static_cast<double>(samples.size());
    weights += static_cast<double>(s.x.size());
  }
  ok = ok && our_error <= their_error;
  std::printf(
      "%-8s %7.4f  %.6f  %.6f  %6.3f  %7.2f  %7.2f%s\n",
      std::string(chimere::dtype_name(type)).c_str(),
      8.0 * chimere::dtype_info(type).block_bytes / chimere::dtype_info(type).block_elements,
      our_error, their_error, our_error / their_error, weights / our_seconds / 1e6,
      weights / their_seconds / 1e6, ok ? "" : "  LARGER");
  std::fflush(stdout);
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: compare_encoders LIBGGML_BASE MODEL [IMATRIX]\n", stderr);
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  const auto encode = library == nullptr
                          ? nullptr
                          : reinterpret_cast<Encode>(dlsym(library, "ggml_quantize_chunk"));
  if (encode == nullptr) {
    std::fprintf(stderr, "compare_encoders: %s has no ggml_quantize_chunk\n", argv[1]);
    return 1;
  }
  const auto samples = samples_of(argv[2], argc > 3 ? argv[3] : "");
  if (!samples.ok()) {
    std::fprintf(stderr, "compare_encoders: %s\n", samples.error().message.c_str());
    return 1;
  }
  std::printf(
      "%zu tensors; error² relative to weights², Mweights/s on one thread\n"
      "format      bits      ours    llama.cpp  ratio     ours  llama.cpp\n",
      samples->size());
  bool ok = true;
  for (const DType type : kTypes) ok = compare(type, encode, *samples) && ok;
  return ok ? 0 : 1;
}
