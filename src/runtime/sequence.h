// A generation that can be interrupted, saved and continued.
#ifndef CHIMERE_RUNTIME_SEQUENCE_H_
#define CHIMERE_RUNTIME_SEQUENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "state/checksum.h"

namespace chimere::runtime {

/// A prompt and what was generated from it so far. `state` spares the next generation the
/// computation of the tokens, and makes it exact: decode rows and prefill rows differ in their
/// bits.
struct Sequence {
  std::vector<int32_t> prompt;     ///< at least one token
  std::vector<int32_t> generated;  ///< empty before the first generation
  std::vector<uint8_t> state;      ///< engine::Outcome::state; empty without generated tokens
};

/// Writes a sequence as docs/library.md describes. `weights`: of its model. Errors: those of the
/// sink.
Status write_sequence(ByteSink& to, const Sequence& sequence, const state::Hash128& weights);
/// Reads it again; must consume the rest of the source. The state itself is checked when the
/// sequence is continued. Errors: kInvalidData (damaged, or no saved sequence), kUnsupported
/// (another version, or of a model with other weights), those of the source.
Result<Sequence> read_sequence(ByteSource& from, const state::Hash128& weights);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_SEQUENCE_H_
