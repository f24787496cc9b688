// Everything a sequence of tokens has left behind in a model: paged KV, convolution rings, recurrent states.
#ifndef CHIMERE_STATE_SEQUENCE_STATE_H_
#define CHIMERE_STATE_SEQUENCE_STATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::state {

/// What a model keeps for each sequence, a component per layer and kind.
struct ComponentSpec {
  enum class Kind { kPagedKv, kRecurrent, kConvolution };
  Kind kind = Kind::kPagedKv;
  int layer = 0;
  DType k_type = DType::kF32;  ///< kPagedKv: of the keys; else of the state
  DType v_type = DType::kF32;  ///< kPagedKv only
  int64_t bytes = 0;           ///< of one page (kPagedKv) or one slot
  uint32_t layout_version = 1; ///< part of every stored state's key
};

struct StateSpec {
  std::vector<ComponentSpec> components;
  int page_tokens = 64;
  int64_t max_pages = 0;  ///< over all sequences
  int max_slots = 0;      ///< recurrent slots over all sequences and checkpoints; they are allocated when first used
};

class StateStore;

/// The state of one sequence. Created, forked and dropped through its store. Not thread-safe.
class SequenceState {
 public:
  ~SequenceState();  ///< gives everything back to the store
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  int32_t position() const { return position_; }  ///< number of committed tokens

 private:
  friend class StateStore;
  explicit SequenceState(StateStore* store) : store_(store) {}
  StateStore* store_;
  int32_t position_ = 0;
  std::vector<int32_t> pages_;   ///< shared with forks and checkpoints by reference count
  std::vector<int32_t> slots_;   ///< slots_[i]: state after i rows beyond position_; slots_[0]: at position_
};

/// An immutable picture of a sequence: KV pages by reference, recurrent state in a slot of its own.
class Checkpoint;

}  // namespace chimere::state

#endif  // CHIMERE_STATE_SEQUENCE_STATE_H_
