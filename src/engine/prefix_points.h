// After which tokens of a prompt its state is worth keeping.
#ifndef CHIMERE_ENGINE_PREFIX_POINTS_H_
#define CHIMERE_ENGINE_PREFIX_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chimere::engine {

/// Most points of a conversation.
inline constexpr size_t kMaxPrefixPoints = 12;

/// Positions among `chunk_ends` (ascending; docs/numerics.md: prompts continue at chunk borders
/// alone), ascending, at most kMaxPrefixPoints:
///   - the start of the second message: the end of a system prompt that conversations share,
///   however
///     short what follows it is;
///   - the starts of the last three messages: the generation's (another generation to the same
///   question), the
///     newest question's (an edited question) and the one before;
///   - the last border that a longer prompt keeps;
///   - for distances of 128, 256, 512, ... tokens from the end, one border between the distance and
///     its double: the last message start there, or else the last border.
/// `message_starts`: the tokens that start a message.
std::vector<int64_t> prefix_points(std::span<const int32_t> prompt,
                                   std::span<const int64_t> chunk_ends,
                                   std::span<const int32_t> message_starts);

/// The last border that every longer prompt has too: a chunk that is not full may continue.
int64_t stable_end(std::span<const int64_t> chunk_ends);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_POINTS_H_
