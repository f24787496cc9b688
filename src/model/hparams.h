// Hyper-parameters of hybrid models: gated delta-net and gated attention layers with routed
// experts.
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
  int n_ff_shared = 0;  ///< inner width of the shared expert
};

struct Hparams {
  std::string architecture;
  int n_embd = 0;
  int n_vocab = 0;
  int n_layers = 0;      ///< of the main model
  int n_mtp_layers = 0;  ///< blocks behind them that predict further tokens
  int context_length = 0;
  float norm_eps = 0;
  std::vector<bool> recurrent;  ///< [n_layers] gated delta-net (else attention)
  kernels::AttentionShape attention;
  kernels::GdnShape delta_net;
  MoeShape moe;
};

/// Reads and checks "<architecture>.*". Errors name the key: kInvalidData (absent, out of range or
/// in contradiction to another), kUnsupported (a variant that would change the arithmetic).
Result<Hparams> read_hparams(const gguf::Reader& file, const std::string& architecture);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_HPARAMS_H_
