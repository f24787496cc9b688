#include "quantize/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "gguf/writer.h"

namespace chimere::quantize {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";
constexpr const char* kType = "imatrix";

std::string quoted_name(std::string_view tensor) { return "'" + std::string(tensor) + "'"; }

Result<std::vector<float>> floats_of(const gguf::TensorInfo& tensor) {
  if (tensor.type != DType::kF32) {
    return invalid_data("the importance matrix holds " + quoted_name(tensor.name) +
                        " in another type than f32");
  }
  std::vector<float> values(tensor.bytes / sizeof(float));
  std::memcpy(values.data(), tensor.data, tensor.bytes);
  const bool valid =
      std::ranges::all_of(values, [](float v) { return std::isfinite(v) && v >= 0; });
  if (!valid) {
    return invalid_data("the importance matrix holds a negative, infinite or invalid number in " +
                        quoted_name(tensor.name));
  }
  return values;
}

}  // namespace

Result<std::vector<float>> ImportanceMatrix::weights(std::string_view tensor, int64_t n_in,
                                                     int64_t matrices) const {
  const auto found = tensors.find(tensor);
  if (found == tensors.end()) return std::vector<float>{};
  const InputStatistics& known = found->second;
  const auto stored = static_cast<int64_t>(known.counts.size());
  if (known.n_in != n_in || (stored != matrices && stored != 1)) {
    return invalid_data("the importance matrix has " + std::to_string(stored) + " x " +
                        std::to_string(known.n_in) + " values for " + quoted_name(tensor) +
                        ", which has " + std::to_string(matrices) + " x " + std::to_string(n_in) +
                        " inputs; it belongs to another model");
  }
  std::vector<double> shared(static_cast<size_t>(n_in));
  double rows = 0;
  for (int64_t m = 0; m < stored; ++m) {
    if (known.counts[static_cast<size_t>(m)] <= 0) continue;
    rows += double{known.counts[static_cast<size_t>(m)]};
    for (int64_t i = 0; i < n_in; ++i) {
      shared[static_cast<size_t>(i)] += double{known.sums[static_cast<size_t>(m * n_in + i)]};
    }
  }
  if (rows <= 0) return std::vector<float>{};
  double mean = 0;
  for (double& v : shared) {
    v /= rows;
    mean += v / static_cast<double>(n_in);
  }
  if (mean <= 0) return std::vector<float>{};
  constexpr double kSmallest = 1e-4;  // of the mean
  std::vector<float> out(static_cast<size_t>(matrices * n_in));
  // A dense tensor has one matrix with samples; experts share some of the others'.
  const double prior = matrices > 1 ? kSharedSamples : 0;
  for (int64_t m = 0; m < matrices; ++m) {
    const int64_t from = stored == 1 ? 0 : m;
    const double count = double{known.counts[static_cast<size_t>(from)]};
    for (int64_t i = 0; i < n_in; ++i) {
      const double sum = count > 0 ? double{known.sums[static_cast<size_t>(from * n_in + i)]} : 0;
      const double value = (sum + prior * shared[static_cast<size_t>(i)]) / (count + prior);
      out[static_cast<size_t>(m * n_in + i)] =
          static_cast<float>(std::max(value, kSmallest * mean));
    }
  }
  return out;
}

Result<ImportanceMatrix> read_importance(const gguf::Reader& file) {
  const auto type = file.get_string("general.type");
  if (!type.ok() || *type != kType) {
    return invalid_data(
        "this GGUF file is no importance matrix: its general.type is not 'imatrix'. Make one with "
        "`chimere imatrix`, or with llama-imatrix, which writes GGUF unless told otherwise");
  }
  ImportanceMatrix out;
  if (const auto* names = file.find_strings("imatrix.datasets")) out.datasets = *names;
  const auto number = [&](std::string_view key) {
    const auto value = file.get_int(key);
    return value.ok() ? static_cast<uint32_t>(std::clamp<int64_t>(*value, 0, UINT32_MAX)) : 0U;
  };
  out.chunks = number("imatrix.chunk_count");
  out.chunk_size = number("imatrix.chunk_size");
  for (const gguf::TensorInfo& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name = sums.name.substr(0, sums.name.size() - kSums.size());
    const gguf::TensorInfo* counts = file.find_tensor(name + std::string(kCounts));
    if (counts == nullptr) {
      return invalid_data("the importance matrix has sums but no counts of " + quoted_name(name));
    }
    InputStatistics one;
    one.n_in = sums.dims[0];
    CHIMERE_TRY(one.sums, floats_of(sums));
    CHIMERE_TRY(one.counts, floats_of(*counts));
    if (one.sums.size() != one.counts.size() * static_cast<size_t>(one.n_in)) {
      return invalid_data("the importance matrix has " + std::to_string(one.counts.size()) +
                          " counts for " + std::to_string(one.sums.size()) + " sums of " +
                          quoted_name(name));
    }
    out.tensors.emplace(name, std::move(one));
  }
  if (out.tensors.empty()) {
    return invalid_data("the importance matrix is empty: it has no tensor named *.in_sum2");
  }
  return out;
}

Result<ImportanceMatrix> load_importance(const std::string& path) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(path));
  auto importance = read_importance(*file);
  CHIMERE_CHECK_OK(file->check_unchanged());
  if (!importance.ok()) {
    return Error{importance.error().code, path + ": " + importance.error().message};
  }
  return importance;
}

Status save_importance(const ImportanceMatrix& importance, const std::string& path) {
  gguf::Writer file;
  file.set_string("general.type", kType);
  file.set_strings("imatrix.datasets", importance.datasets);
  file.set_u32("imatrix.chunk_count", importance.chunks);
  file.set_u32("imatrix.chunk_size", importance.chunk_size);
  for (const auto& [name, one] : importance.tensors) {
    const auto matrices = static_cast<int64_t>(one.counts.size());
    CHIMERE_CHECK_OK(file.add_tensor(name + std::string(kSums), {one.n_in, matrices}, DType::kF32,
                                     one.sums.data(), one.sums.size() * sizeof(float)));
    CHIMERE_CHECK_OK(file.add_tensor(name + std::string(kCounts), {1, matrices}, DType::kF32,
                                     one.counts.data(), one.counts.size() * sizeof(float)));
  }
  return file.write(path);
}

}  // namespace chimere::quantize
