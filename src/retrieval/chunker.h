// Documents to chunks: the passages that a search finds. docs/retrieval.md has the rules.
#ifndef CHIMERE_RETRIEVAL_CHUNKER_H_
#define CHIMERE_RETRIEVAL_CHUNKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "retrieval/document.h"

namespace chimere::retrieval {

struct Chunk {
  std::string heading;  ///< the headings above it, outermost first: "OPTIONS > Output"
  std::string text;
  int64_t line = 0;  ///< of its first new text, from 1; 0: unknown
};

/// Sizes in bytes of UTF-8 text.
struct ChunkRules {
  size_t most = 1200;    ///< a chunk has at most this much, overlap included
  size_t few = 200;      ///< a shorter section is joined with the next one under the same heading
  size_t overlap = 160;  ///< most text that a chunk repeats of the one before, in one section
};

/// A heading begins a new chunk; blocks of a section are joined while they fit; a block that does
/// not fit is cut after a sentence, else after a line, else between words. Linear time.
std::vector<Chunk> chunk(const Document& document, const ChunkRules& rules = {});

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_CHUNKER_H_
