// Chunk boundaries of prompts (chunked prefill).
#ifndef CHIMERE_MODEL_CHUNKING_H_
#define CHIMERE_MODEL_CHUNKING_H_

#include <cstdint>
#include <span>
#include <vector>

namespace chimere::model {

/// Sizes of the chunks of a prompt, in order, summing to tokens.size(). A chunk starts at the first
/// token, at every token of `message_starts` (text::chatml_starts()), and 64 tokens after the
/// previous start: a pure function of the token ids, so a prompt is chunked the same way alone and
/// in a batch. Chunking a prompt from any chunk boundary on gives the remaining chunks of the
/// whole.
std::vector<int32_t> chunk_sizes(std::span<const int32_t> tokens,
                                 std::span<const int32_t> message_starts);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_CHUNKING_H_
