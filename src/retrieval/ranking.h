// The results of several searches to one list.
#ifndef CHIMERE_RETRIEVAL_RANKING_H_
#define CHIMERE_RETRIEVAL_RANKING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "retrieval/store.h"
#include "retrieval/vector_index.h"

namespace chimere::retrieval {

struct RankedChunk {
  int64_t id = 0;
  double score = 0;
  std::optional<double> words;
  std::optional<double> similarity;
};

/// Weighted reciprocal rank fusion (Cormack et al. 2009): a chunk's score is the sum over the
/// searches that found it of weight / (1 + rank), divided by the best score possible. The search
/// for words weighs 1. Best first; chunks of equal score in the order of their ids.
/// docs/retrieval.md says how the numbers were chosen.
std::vector<RankedChunk> fuse(std::span<const WordHit> words, std::span<const VectorHit> near,
                              double vectors_weight);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_RANKING_H_
