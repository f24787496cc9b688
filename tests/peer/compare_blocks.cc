// compare_blocks LIBGGML_BASE [BLOCKS]: compares our block formats with llama.cpp's library.
// Random blocks of every format go through its decoders (dequantize_row_*()) and through ours. Any
// bytes are a block, so all scales occur, infinities and NaNs included; results must be the same
// bits, except that a NaN is a NaN. Normally distributed weights go through its encoders
// (ggml_quantize_chunk()) and ours, whose error must not be larger, with and without importance.
#include <dlfcn.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "quant/quant.h"
#include "tensor/dtype.h"

namespace {

using chimere::DType;
using Decode = void (*)(const void* blocks, float* values, int64_t n);
using Encode = size_t (*)(int type, const float* values, void* blocks, int64_t start, int64_t rows,
                          int64_t columns, const float* importance);

constexpr DType kTypes[] = {
    DType::kQ4_0,    DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1,    DType::kQ8_0,  DType::kQ2_K,
    DType::kQ3_K,    DType::kQ4_K,   DType::kQ5_K,  DType::kQ6_K,    DType::kIQ1_S, DType::kIQ1_M,
    DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ4_NL,
    DType::kIQ4_XS,  DType::kMXFP4,  DType::kTQ1_0, DType::kTQ2_0};

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// True if all elements of `count` random blocks agree.
bool compare(DType type, Decode theirs, int64_t count, std::mt19937_64& random) {
  const chimere::DTypeInfo& info = chimere::dtype_info(type);
  std::vector<uint64_t> storage(static_cast<size_t>(count * info.block_bytes / 8 + 1));
  for (uint64_t& word : storage) word = random();
  const int64_t n = count * info.block_elements;
  std::vector<float> want(static_cast<size_t>(n));
  std::vector<float> got(want.size());
  theirs(storage.data(), want.data(), n);
  chimere::quant::decode(type, storage.data(), got.data(), n);
  size_t numbers = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!same(want[i], got[i])) {
      std::printf("%s: element %zu is %a, llama.cpp says %a\n", std::string(info.name).c_str(), i,
                  static_cast<double>(got[i]), static_cast<double>(want[i]));
      return false;
    }
    numbers += std::isfinite(want[i]) ? 1 : 0;
  }
  std::printf("%-8s %zu elements alike, %zu of them finite\n", std::string(info.name).c_str(),
              want.size(), numbers);
  return 10 * numbers > 9 * want.size();
}

double error(DType type, const void* blocks, const std::vector<float>& x,
             const std::vector<float>& importance) {
  std::vector<float> y(x.size());
  chimere::quant::decode(type, blocks, y.data(), static_cast<int64_t>(x.size()));
  double squares = 0;
  double error_squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = double{importance[i % importance.size()]};
    const double difference = double{x[i]} - double{y[i]};
    squares += w * double{x[i]} * double{x[i]};
    error_squares += w * difference * difference;
  }
  return std::sqrt(error_squares / squares);
}

/// True if our encoder's relative error is at most theirs. `importance`: of each column.
bool compare_encoders(DType type, Encode theirs, const std::vector<float>& importance,
                      std::mt19937_64& random) {
  constexpr int64_t kRows = 64;
  const auto columns = static_cast<int64_t>(importance.size());
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> x(static_cast<size_t>(kRows * columns));
  for (float& v : x) v = normal(random);
  const auto row_bytes = static_cast<size_t>(chimere::row_bytes(type, columns));
  std::vector<uint64_t> blocks(static_cast<size_t>(kRows) * row_bytes / 8 + 1);
  theirs(static_cast<int>(type), x.data(), blocks.data(), 0, kRows, columns, importance.data());
  const double their_error = error(type, blocks.data(), x, importance);
  bool ok = true;
  for (int64_t r = 0; r < kRows; ++r) {
    ok = chimere::quant::encode(
             type, x.data() + r * columns,
             reinterpret_cast<uint8_t*>(blocks.data()) + static_cast<size_t>(r) * row_bytes,
             columns, importance.data())
             .ok() &&
         ok;
  }
  const double our_error = error(type, blocks.data(), x, importance);
  ok = ok && our_error <= their_error;
  std::printf("%-8s encoding error %.5f, llama.cpp's %.5f%s\n",
              std::string(chimere::dtype_name(type)).c_str(), our_error, their_error,
              ok ? "" : "  FAILED");
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: compare_blocks LIBGGML_BASE [BLOCKS]\n", stderr);
    return 2;
  }
  const int64_t count = argc > 2 ? std::atoll(argv[2]) : 20000;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "compare_blocks: %s\n", dlerror());
    return 1;
  }
  std::printf("%lld blocks of each format\n", static_cast<long long>(count));
  std::mt19937_64 random(chimere::fresh_seed());
  bool ok = true;
  for (const DType type : kTypes) {
    const std::string name = "dequantize_row_" + std::string(chimere::dtype_name(type));
    const auto theirs = reinterpret_cast<Decode>(dlsym(library, name.c_str()));
    if (theirs == nullptr) {
      std::printf("llama.cpp's library lacks %s\n", name.c_str());
      ok = false;
      continue;
    }
    ok = compare(type, theirs, count, random) && ok;
  }
  const auto encode = reinterpret_cast<Encode>(dlsym(library, "ggml_quantize_chunk"));
  if (encode == nullptr) {
    std::puts("llama.cpp's library lacks ggml_quantize_chunk");
    return 1;
  }
  // The second time with importance as uneven as that of a trained model's inputs.
  constexpr size_t kColumns = 1024;
  std::lognormal_distribution<float> uneven(0, 1);
  for (const bool alike : {true, false}) {
    std::printf("importance: %s\n", alike ? "all alike" : "log-normal");
    std::vector<float> importance(kColumns, 1.0F);
    if (!alike) {
      for (float& w : importance) w = uneven(random);
    }
    for (const DType type : kTypes) {
      if (!chimere::quant::can_encode(type)) continue;
      ok = compare_encoders(type, encode, importance, random) && ok;
    }
  }
  return ok ? 0 : 1;
}
