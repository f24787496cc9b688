// What a model keeps for each sequence, and how much of it there may be.
#ifndef CHIMERE_STATE_SPEC_H_
#define CHIMERE_STATE_SPEC_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::state {

/// One kind of state of one layer.
struct ComponentSpec {
  enum class Kind : uint32_t {
    kPagedKv = 0,      ///< keys and values of `page_tokens` positions, a piece per page
    kRecurrent = 1,    ///< fixed size, a piece per slot
    kConvolution = 2,  ///< the last inputs of a convolution, a piece per slot
  };
  Kind kind = Kind::kPagedKv;
  int layer = 0;
  DType k_type = DType::kF32;   ///< kPagedKv: of the keys; else of the state
  DType v_type = DType::kF32;   ///< kPagedKv only
  int64_t bytes = 0;            ///< of one piece; a multiple of 64
  uint32_t layout_version = 1;  ///< raised when the meaning of the bytes changes

  bool paged() const { return kind == Kind::kPagedKv; }
};

struct StateSpec {
  std::vector<ComponentSpec> components;
  int page_tokens = 64;
  int64_t max_pages = 0;  ///< over all sequences and checkpoints together
  int64_t max_slots = 0;  ///< recurrent slots over all sequences, checkpoints and revocable rows
  /// Most memory of pages and slots together, whatever their numbers allow; 0: no other limit.
  int64_t max_bytes = 0;
  /// Names hyper-parameters and weights' shapes; a blob of another model is refused. Which values
  /// the weights have is named by WeightsHash, where states leave the process.
  uint64_t model_key = 0;
};

/// Names everything that gives a state's bytes their meaning: components, their order, page size,
/// model.
uint64_t fingerprint(const StateSpec& spec);

/// Errors: kInvalidArgument, naming the field, when a spec makes no sense.
Status validate(const StateSpec& spec);

}  // namespace chimere::state

#endif  // CHIMERE_STATE_SPEC_H_
