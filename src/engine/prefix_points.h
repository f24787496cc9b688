// Which positions of a prompt are worth keeping a state at.
#ifndef CHIMERE_ENGINE_PREFIX_POINTS_H_
#define CHIMERE_ENGINE_PREFIX_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chimere::engine {

/// Most points per conversation.
inline constexpr size_t kMaxPrefixPoints = 12;

/// Positions among `chunk_ends` (ascending; docs/numerics.md: prompts continue at chunk boundaries
/// only), ascending, at most kMaxPrefixPoints:
///   - the start of the second message: the end of a system prompt that conversations share,
///     however short what follows it is;
///   - the starts of the last three messages: the generation's (another sample for the same
///     question), the newest question's (an edited question) and the one before;
///   - the last boundary that every longer prompt shares (stable_end());
///   - for distances of 128, 256, 512, ... tokens from the end, one boundary between the distance
///     and its double: the last message start there, or else the last boundary.
/// `message_starts`: ids of the tokens that start a message.
std::vector<int64_t> prefix_points(std::span<const int32_t> prompt,
                                   std::span<const int64_t> chunk_ends,
                                   std::span<const int32_t> message_starts);

/// The last boundary that every longer prompt shares; a chunk that is not full may grow.
int64_t stable_end(std::span<const int64_t> chunk_ends);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_POINTS_H_
