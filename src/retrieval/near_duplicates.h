// Whether two passages say the same.
#ifndef CHIMERE_RETRIEVAL_NEAR_DUPLICATES_H_
#define CHIMERE_RETRIEVAL_NEAR_DUPLICATES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace chimere::retrieval {

/// The hashes of a text's sequences of three words, without case and punctuation, sorted and each
/// once; of a shorter text one hash (Broder 1997, "On the resemblance and containment of
/// documents").
std::vector<uint64_t> shingles(std::string_view text);

/// The Jaccard index of two sets: the size of what they share over the size of both together. Of
/// two empty sets 1.
double resemblance(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b);

/// Passages that resemble each other at least so much are duplicates.
inline constexpr double kNearDuplicate = 0.8;

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_NEAR_DUPLICATES_H_
