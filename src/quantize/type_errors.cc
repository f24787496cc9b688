#include "quantize/type_errors.h"

#include <algorithm>
#include <string>

#include "quant/quant.h"
#include "quantize/encode_tensor.h"

namespace chimere::quantize {
namespace {

// By rising bits. Formats that another one of the same size beats are left out.
constexpr DType kCandidates[] = {DType::kIQ1_S, DType::kIQ1_M,  DType::kIQ2_XXS, DType::kIQ2_XS,
                                 DType::kIQ2_S, DType::kQ2_K,   DType::kIQ3_XXS, DType::kIQ3_S,
                                 DType::kQ3_K,  DType::kIQ4_XS, DType::kIQ4_NL,  DType::kQ4_K,
                                 DType::kQ4_1,  DType::kQ5_0,   DType::kQ5_K,    DType::kQ5_1,
                                 DType::kQ6_K,  DType::kQ8_0,   DType::kF16};

}  // namespace

std::vector<DType> candidate_types(int64_t n_in, DType floor) {
  const double least = floor == DType::kF32 ? 0 : bits_per_weight(floor);
  std::vector<DType> types;
  for (const DType type : kCandidates) {
    if (n_in % dtype_info(type).block_elements == 0 && bits_per_weight(type) >= least) {
      types.push_back(type);
    }
  }
  return types;
}

Result<std::vector<double>> type_errors(const gguf::Reader& file, const PlannedTensor& tensor,
                                        std::span<const float> importance,
                                        std::span<const DType> types, int64_t sample,
                                        ThreadPool& pool) {
  const RowReader reader(file, *tensor.source);
  const int64_t n_in = tensor.n_in();
  const int64_t rows = tensor.rows();
  const int64_t rows_of_matrix = rows / tensor.matrices();
  const int64_t taken = std::clamp<int64_t>(sample / n_in, 1, rows);
  struct RowErrors {
    Status status;
    double norm = 0;
    std::vector<double> errors;
  };
  std::vector<RowErrors> results(static_cast<size_t>(taken));
  const auto measure = [&](int64_t i, RowErrors& out) -> Status {
    const int64_t row = i * rows / taken;
    std::vector<uint8_t> stored;
    std::vector<float> x(static_cast<size_t>(n_in));
    std::vector<float> y(x.size());
    std::vector<uint8_t> encoded;
    CHIMERE_CHECK_OK(reader.decode(row, 1, stored, x));
    const float* w = importance.empty() ? nullptr : importance.data() + row / rows_of_matrix * n_in;
    const auto weight = [&](size_t j) { return w != nullptr ? double{w[j]} : 1.0; };
    for (size_t j = 0; j < x.size(); ++j) out.norm += weight(j) * double{x[j]} * double{x[j]};
    for (const DType type : types) {
      encoded.resize(static_cast<size_t>(row_bytes(type, n_in)));
      auto status = quant::encode(type, x.data(), encoded.data(), n_in, w);
      if (!status.ok()) {
        return invalid_data("row " + std::to_string(row) + " of tensor '" + tensor.source->name +
                            "': " + status.error().message);
      }
      quant::decode(type, encoded.data(), y.data(), n_in);
      double error = 0;
      for (size_t j = 0; j < x.size(); ++j) {
        const double d = double{x[j]} - double{y[j]};
        error += weight(j) * d * d;
      }
      out.errors.push_back(error);
    }
    return {};
  };
  pool.parallel_for(taken, 1, [&](int64_t begin, int64_t end, int /*worker*/) {
    for (int64_t i = begin; i < end; ++i) {
      RowErrors& out = results[static_cast<size_t>(i)];
      out.status = measure(i, out);
    }
  });
  double norm = 0;
  std::vector<double> sums(types.size());
  for (RowErrors& one : results) {  // in order, so that sums do not depend on threads
    CHIMERE_CHECK_OK(std::move(one.status));
    norm += one.norm;
    for (size_t t = 0; t < sums.size(); ++t) sums[t] += one.errors[t];
  }
  for (double& sum : sums) sum = norm > 0 ? sum / norm : 0;
  return sums;
}

}  // namespace chimere::quantize
