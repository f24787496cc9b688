#include "support/random_tensors.h"

#include <cmath>
#include <cstring>

#include "quant/quant.h"

namespace chimere::test {
namespace {

/// A field of a block that scales all of its weights: f16 at `offset`, times `factor` so that
/// minima take away the mean.
struct ScaleField {
  int offset;
  float factor;
};

std::vector<ScaleField> scale_fields(DType type) {
  switch (type) {
    case DType::kQ4_1:
      return {{0, 1}, {2, -7.5F}};
    case DType::kQ5_1:
      return {{0, 1}, {2, -15.5F}};
    case DType::kQ2_K:
      return {{80, 1}, {82, 1.5F}};
    case DType::kQ3_K:
      return {{108, 1}};
    case DType::kQ4_K:
      return {{0, 1}, {2, 7.5F}};
    case DType::kQ5_K:
      return {{0, 1}, {2, 15.5F}};
    case DType::kQ6_K:
      return {{208, 1}};
    case DType::kTQ1_0:
      return {{52, 1}};
    case DType::kTQ2_0:
      return {{64, 1}};
    case DType::kMXFP4:
    case DType::kIQ1_M:
      return {};  // see set_scale()
    default:
      return {{0, 1}};
  }
}

/// Gives a block of random bits the scale d, as near as the format can.
void set_scale(DType type, float d, uint8_t* block) {
  if (type == DType::kMXFP4) {  // a power of two, of which weights are halves
    block[0] = static_cast<uint8_t>(128 + std::ilogb(d));
    return;
  }
  if (type == DType::kIQ1_M) {  // an f16 in the top four bits of four words
    const uint16_t h = quant::f32_to_f16(d);
    for (int word = 0; word < 4; ++word) {
      uint8_t& top = block[48 + 2 * word + 1];
      top = static_cast<uint8_t>((top & 0x0F) | (((h >> (4 * word)) & 0x0F) << 4));
    }
    return;
  }
  for (const ScaleField& f : scale_fields(type)) {
    const uint16_t h = quant::f32_to_f16(d * f.factor);
    std::memcpy(block + f.offset, &h, 2);
  }
}

/// The standard deviation that random bits have at scale 1.
float unit_deviation(DType type) {
  constexpr int kBlocks = 64;
  std::mt19937_64 rng(1);
  const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  std::vector<uint8_t> data(kBlocks * block_bytes);
  for (uint8_t& b : data) b = static_cast<uint8_t>(rng() >> 56);
  for (size_t at = 0; at < data.size(); at += block_bytes) set_scale(type, 1, data.data() + at);
  std::vector<float> values(static_cast<size_t>(kBlocks) *
                            static_cast<size_t>(dtype_info(type).block_elements));
  quant::decode(type, data.data(), values.data(), static_cast<int64_t>(values.size()));
  double squares = 0;
  for (const float x : values) squares += static_cast<double>(x) * x;
  return static_cast<float>(std::sqrt(squares / static_cast<double>(values.size())));
}

}  // namespace

Result<gguf::Writer> RandomTensors::finish() {
  if (!status_.ok()) return status_.error();
  return std::move(writer_);
}

float RandomTensors::normal() {
  return (uniform() + uniform() + uniform() + uniform() - 2) * std::sqrt(3.0F);
}

void RandomTensors::add(const std::string& name, const std::vector<int64_t>& dims, DType type,
                        const void* data, size_t bytes) {
  if (!status_.ok()) return;
  status_ = writer_.add_tensor(name, dims, type, data, bytes);
}

void RandomTensors::vector(const std::string& name, const std::vector<float>& v) {
  add(name, {static_cast<int64_t>(v.size())}, DType::kF32, v.data(), v.size() * sizeof(float));
}

void RandomTensors::norm(const std::string& name, int n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = 1 + 0.1F * normal();
  vector(name, v);
}

void RandomTensors::bias(const std::string& name, int n, float deviation) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = deviation * normal();
  vector(name, v);
}

RandomMatrix RandomTensors::draw(const std::vector<int64_t>& dims, DType type) {
  if (dims[0] % dtype_info(type).block_elements != 0) type = DType::kQ8_0;
  if (dims[0] % dtype_info(type).block_elements != 0) type = DType::kF32;
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  const float deviation = 1 / std::sqrt(static_cast<float>(dims[0]));
  return {dims, type,
          dtype_info(type).quantised ? random_blocks(type, n, deviation)
                                     : random_floats(type, n, deviation)};
}

void RandomTensors::add(const std::string& name, const RandomMatrix& m) {
  add(name, m.dims, m.type, m.data.data(), m.data.size());
}

void RandomTensors::fused(const std::string& name, const std::vector<RandomMatrix>& parts, int n) {
  RandomMatrix all = parts[0];
  all.data.clear();
  all.dims[1] = 0;
  for (const RandomMatrix& part : parts) all.dims[1] += part.dims[1];
  for (int share = 0; share < n; ++share) {
    for (const RandomMatrix& part : parts) {
      const auto bytes = static_cast<std::ptrdiff_t>(part.data.size()) / n;
      const auto begin = part.data.begin() + share * bytes;
      all.data.insert(all.data.end(), begin, begin + bytes);
    }
  }
  add(name, all);
}

RandomMatrix RandomTensors::rows(const RandomMatrix& m, int64_t begin, int64_t count) {
  const int64_t bytes = row_bytes(m.type, m.dims[0]);
  const auto first = m.data.begin() + begin * bytes;
  return {{m.dims[0], count}, m.type, {first, first + count * bytes}};
}

std::vector<uint8_t> RandomTensors::random_floats(DType type, int64_t n, float deviation) {
  std::vector<uint8_t> data(static_cast<size_t>(row_bytes(type, n)));
  for (int64_t i = 0; i < n; ++i) {
    const float x = normal() * deviation;
    if (type == DType::kF32) {
      std::memcpy(data.data() + 4 * i, &x, 4);
    } else {
      const uint16_t h = type == DType::kF16 ? quant::f32_to_f16(x) : quant::f32_to_bf16(x);
      std::memcpy(data.data() + 2 * i, &h, 2);
    }
  }
  return data;
}

std::vector<uint8_t> RandomTensors::random_blocks(DType type, int64_t n, float deviation) {
  std::vector<uint8_t> data(static_cast<size_t>(row_bytes(type, n)));
  for (uint8_t& b : data) b = static_cast<uint8_t>(rng_() >> 56);
  const float unit = deviation / unit_deviation(type);
  const auto block = static_cast<size_t>(dtype_info(type).block_bytes);
  for (size_t at = 0; at < data.size(); at += block) {
    set_scale(type, unit * (0.75F + 0.5F * uniform()), data.data() + at);
  }
  return data;
}

}  // namespace chimere::test
