// What the quantiser knows of tensors from their names and shapes: their role in the model, whether
// they are quantised at all, and which formats their rows allow.
#ifndef CHIMERE_QUANTIZE_TENSOR_RULES_H_
#define CHIMERE_QUANTIZE_TENSOR_RULES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/metadata.h"
#include "tensor/dtype.h"

namespace chimere::quantize {

/// What a weight matrix does in the model.
enum class Role {
  kEmbedding,      ///< token_embd: rows are looked up; the output matrix too where they are tied
  kOutput,         ///< output: the logits
  kAttention,      ///< attention's q, k, v and output projections
  kRecurrent,      ///< in and out projections of recurrent mixers and short convolutions
  kRecurrentGate,  ///< small projections that become decays, step sizes and gates of a recurrence
  kDense,          ///< a dense feed-forward network
  kExperts,        ///< routed experts
  kSharedExpert,   ///< an expert that every token uses
  kDraft,          ///< the MTP head's own projections
  kOther,
};
/// "embedding", "output", "attention", ...
std::string_view role_name(Role role);
std::optional<Role> parse_role(std::string_view name);
/// All names, in the order of the enumeration.
std::vector<std::string> role_names();
/// `recurrent_block`: the tensor's block has a recurrent mixer, whose in projections share names
/// with attention's (attn_qkv, attn_gate).
Role role_of(std::string_view tensor, bool recurrent_block);

/// For each block N ("blk.N.") whether it has a recurrent mixer and no attention, by its tensors.
std::vector<bool> recurrent_blocks(const std::vector<gguf::TensorInfo>& tensors);
/// N of "blk.N.rest"; -1 for other names.
int block_of(std::string_view tensor);

/// Matrices that products or look-ups read. Norms, biases, routers, convolutions and positions stay
/// as they are: they are small, and llama.cpp keeps them too.
bool is_quantised_tensor(const gguf::TensorInfo& tensor);

/// `type` if rows of n_in elements are whole blocks of it, else the nearest format in size whose
/// blocks they are, as llama.cpp replaces it; F16 if there is none.
DType fitting_type(DType type, int64_t n_in);

double bits_per_weight(DType type);

/// Whether `text` matches a pattern with * (any characters) and ? (one character).
bool matches(std::string_view pattern, std::string_view text);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_TENSOR_RULES_H_
