// Where prompts are cut into chunks.
#ifndef CHIMERE_MODEL_CHUNKING_H_
#define CHIMERE_MODEL_CHUNKING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace chimere::model {

/// Sizes of the chunks of a prompt, in order, summing to tokens.size(). A chunk starts at the first
/// token, at every token of `message_starts` (such as <|im_start|>), and 64 tokens after the last
/// start: a pure function of the token ids, so that a prompt has the same chunks alone and in
/// company. The chunks of a prompt's rest, cut off at a chunk boundary, are the rest of the
/// prompt's chunks.
std::vector<int32_t> chunk_sizes(std::span<const int32_t> tokens,
                                 std::span<const int32_t> message_starts);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_CHUNKING_H_
