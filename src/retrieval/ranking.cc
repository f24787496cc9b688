#include "retrieval/ranking.h"

#include <algorithm>
#include <unordered_map>

namespace chimere::retrieval {
namespace {

constexpr double kRankOffset = 1;

}  // namespace

std::vector<RankedChunk> fuse(std::span<const WordHit> words, std::span<const VectorHit> near,
                              double vectors_weight) {
  std::vector<RankedChunk> ranked;
  std::unordered_map<int64_t, size_t> places;
  const auto chunk = [&](int64_t id) -> RankedChunk& {
    const auto [at, added] = places.emplace(id, ranked.size());
    if (added) ranked.emplace_back().id = id;
    return ranked[at->second];
  };
  for (size_t i = 0; i < words.size(); ++i) {
    RankedChunk& c = chunk(words[i].chunk);
    c.words = words[i].score;
    c.score += 1 / (kRankOffset + static_cast<double>(i) + 1);
  }
  for (size_t i = 0; i < near.size(); ++i) {
    RankedChunk& c = chunk(near[i].chunk);
    c.similarity = near[i].similarity;
    c.score += vectors_weight / (kRankOffset + static_cast<double>(i) + 1);
  }
  const double best =
      ((words.empty() ? 0 : 1) + (near.empty() ? 0 : vectors_weight)) / (kRankOffset + 1);
  for (RankedChunk& c : ranked) c.score /= best;
  std::ranges::sort(ranked, [](const RankedChunk& a, const RankedChunk& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  return ranked;
}

}  // namespace chimere::retrieval
