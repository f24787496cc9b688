// Hyper-parameters of hybrid models (gated delta-net and gated attention layers, each followed by
// routed experts or a dense feed-forward network) and of plain transformers (ungated attention in
// every layer).
#ifndef CHIMERE_MODEL_HPARAMS_H_
#define CHIMERE_MODEL_HPARAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "kernels/api.h"

namespace chimere::model {

struct MoeShape {
  int n_experts = 0;
  int n_used = 0;       ///< experts a token is sent to
  int n_ff = 0;         ///< inner width of a routed expert
  int n_ff_shared = 0;  ///< inner width of the shared expert; 0: there is none
  /// A decode row uses its experts in order of falling weight until their weights sum to this; 1:
  /// all. Set by ModelOptions::expert_top_p, not by the file.
  float top_p = 1;
};

/// Properties implied by an architecture's name, which no key of a file states.
struct HybridKind {
  const char* name = nullptr;
  bool experts = false;  ///< else every layer has a dense feed-forward network
  /// v head h of the delta net reads k head h % n_k_heads, else h / (n_v_heads / n_k_heads).
  bool tiled_heads = false;
  bool transformer = false;  ///< no delta nets, no gates, no shared expert
};

/// How a text's embedding is computed from the final hidden states of its rows.
enum class Pooling {
  kNone,  ///< not an embedding model: predicts tokens
  kMean,  ///< the mean of all rows
  kLast,  ///< the last row
};

struct Hparams {
  std::string architecture;
  int n_embd = 0;
  int n_vocab = 0;
  int n_layers = 0;      ///< without MTP heads
  int n_mtp_layers = 0;  ///< MTP heads, stored after the layers
  int context_length = 0;
  float norm_eps = 0;
  std::vector<bool> recurrent;  ///< [n_layers] gated delta-net (else attention)
  kernels::AttentionShape attention;
  kernels::GdnShape delta_net;
  int n_ff = 0;  ///< inner width of the dense feed-forward network; 0 where there are experts
  MoeShape moe;
  Pooling pooling = Pooling::kNone;

  /// Values per output row: a logit for each token, or the hidden state that an embedding is pooled
  /// from.
  int n_outputs() const { return pooling == Pooling::kNone ? n_vocab : n_embd; }
};

/// Reads and checks "<kind.name>.*". Errors name the key: kInvalidData (absent, out of range or
/// contradicting another key), kUnsupported (a variant of the arithmetic that is not implemented).
Result<Hparams> read_hparams(const gguf::Reader& file, const HybridKind& kind);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_HPARAMS_H_
