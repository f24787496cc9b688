#include "retrieval/vector_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/byte_dots.h"

namespace chimere::retrieval {
namespace {

constexpr float kMostByte = 127;
/// Elements of a query are rounded to 12 bits: a sum of 8,192 products fits into 32 bits.
constexpr float kMostQuery = 2047;

float largest(std::span<const float> vector) {
  float most = 0;
  for (const float x : vector) most = std::max(most, std::abs(x));
  return most;
}

}  // namespace

std::vector<std::byte> pack_vector(std::span<const float> vector) {
  const float most = largest(vector);
  const float scale = most > 0 && std::isfinite(most) ? most / kMostByte : 1;
  std::vector<std::byte> packed(sizeof(float) + vector.size());
  std::memcpy(packed.data(), &scale, sizeof(float));
  for (size_t i = 0; i < vector.size(); ++i) {
    const float x = std::isfinite(vector[i]) ? vector[i] / scale : 0;
    const auto rounded = static_cast<int8_t>(std::clamp(std::round(x), -kMostByte, kMostByte));
    packed[sizeof(float) + i] = static_cast<std::byte>(rounded);
  }
  return packed;
}

void VectorIndex::add(int64_t chunk, std::span<const std::byte> packed) {
  if (packed.size() != sizeof(float) + dimensions_) return;
  float scale = 0;
  std::memcpy(&scale, packed.data(), sizeof(float));
  if (!std::isfinite(scale)) return;
  chunks_.push_back(chunk);
  scales_.push_back(scale);
  const auto* bytes = reinterpret_cast<const int8_t*>(packed.data() + sizeof(float));
  elements_.insert(elements_.end(), bytes, bytes + dimensions_);
}

void VectorIndex::keep(std::span<const int64_t> chunks) {
  size_t kept = 0;
  auto wanted = chunks.begin();
  for (size_t i = 0; i < chunks_.size(); ++i) {
    while (wanted != chunks.end() && *wanted < chunks_[i]) ++wanted;
    if (wanted == chunks.end() || *wanted != chunks_[i]) continue;
    if (kept != i) {
      chunks_[kept] = chunks_[i];
      scales_[kept] = scales_[i];
      std::memcpy(&elements_[kept * dimensions_], &elements_[i * dimensions_], dimensions_);
    }
    ++kept;
  }
  chunks_.resize(kept);
  scales_.resize(kept);
  elements_.resize(kept * dimensions_);
}

std::vector<VectorHit> VectorIndex::search(std::span<const float> query, size_t most) const {
  if (query.size() != dimensions_ || most == 0) return {};
  const float top = largest(query);
  if (!(top > 0) || !std::isfinite(top)) return {};
  const float scale = top / kMostQuery;
  std::vector<int16_t> rounded(dimensions_);
  for (size_t i = 0; i < dimensions_; ++i)
    rounded[i] = static_cast<int16_t>(std::lround(query[i] / scale));
  const auto better = [](const VectorHit& a, const VectorHit& b) {
    return a.similarity != b.similarity ? a.similarity > b.similarity : a.chunk < b.chunk;
  };
  std::vector<VectorHit> best;  // a heap with the worst first
  constexpr size_t kRows = 256;
  std::array<int32_t, kRows> sums{};
  for (size_t first = 0; first < chunks_.size(); first += kRows) {
    const size_t rows = std::min(kRows, chunks_.size() - first);
    kernels::byte_dots(&elements_[first * dimensions_], static_cast<int64_t>(rows), dimensions(),
                       rounded.data(), sums.data());
    for (size_t r = 0; r < rows; ++r) {
      const size_t i = first + r;
      const VectorHit hit = {chunks_[i], double{scale} * double{scales_[i]} * sums[r]};
      if (best.size() < most) {
        best.push_back(hit);
        std::ranges::push_heap(best, better);
      } else if (better(hit, best.front())) {
        std::ranges::pop_heap(best, better);
        best.back() = hit;
        std::ranges::push_heap(best, better);
      }
    }
  }
  std::ranges::sort_heap(best, better);
  return best;
}

}  // namespace chimere::retrieval
