// A small random block drafter, for tests.
#ifndef CHIMERE_TESTS_SUPPORT_TINY_DRAFTER_H_
#define CHIMERE_TESTS_SUPPORT_TINY_DRAFTER_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"
#include "support/tiny_model.h"

namespace chimere::test {

struct TinyDrafter {
  uint64_t seed = 1;
  std::vector<int> taps = {1, 3};  ///< layers of the target
  int n_layers = 2;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 16;
  int n_ff = 48;
  int block_size = 4;
  int mask_token = 0;
  int window = 0;  ///< of the first layer; 0: none
  DType weights = DType::kF32;
};

/// Drafts for models of `target`'s shape. Deterministic on every machine. Errors: those of
/// gguf::Writer.
Result<gguf::Writer> make_tiny_drafter(const TinyDrafter& drafter, const TinyModel& target);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_TINY_DRAFTER_H_
