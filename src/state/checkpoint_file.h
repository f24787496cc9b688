// A checkpoint on disk, with the tokens that led to it (docs/state-blob.md, "A file").
#ifndef CHIMERE_STATE_CHECKPOINT_FILE_H_
#define CHIMERE_STATE_CHECKPOINT_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "state/checksum.h"
#include "state/sequence_state.h"
#include "state/state_store.h"

namespace chimere::state {

/// The content of a checkpoint file.
struct StoredSequence {
  std::vector<int32_t> tokens;  ///< the tokens that the state has seen
  std::string note;             ///< opaque bytes of the writer
  std::unique_ptr<SequenceState> state;
};

/// Writes `state`, page by page, with its `tokens` and a note. The file takes the place of `path`
/// only when it is complete and on the disk. `weights`: of the model (WeightsHash). Errors:
/// kInvalidArgument (another number of tokens than the state has seen), kOutOfSpace, kIo (no
/// permission, ...); `path` is as it was then.
Status save_checkpoint(const std::string& path, const Checkpoint& state,
                       std::span<const int32_t> tokens, std::string_view note,
                       const Hash128& weights);

/// Reads the pages into the store as they come. `weights`: of the store's model. Errors: kNotFound,
/// kIo, kInvalidData (damaged), kUnsupported (of another model, other weights, cache type, layout
/// or version), kOutOfMemory (the pools are full), each naming the file; the store is as it was
/// then.
Result<StoredSequence> load_checkpoint(const std::string& path, StateStore& store,
                                       const Hash128& weights);

/// The same to and from any stream; reading must consume the rest of the stream. Messages name no
/// file.
Status write_checkpoint(ByteSink& to, const Checkpoint& state, std::span<const int32_t> tokens,
                        std::string_view note, const Hash128& weights);
Result<StoredSequence> read_checkpoint(ByteSource& from, StateStore& store, const Hash128& weights);

}  // namespace chimere::state

#endif  // CHIMERE_STATE_CHECKPOINT_FILE_H_
