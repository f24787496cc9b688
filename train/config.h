// Shapes of the model and the recipe of a run.
#ifndef CHIMERE_TRAIN_CONFIG_H_
#define CHIMERE_TRAIN_CONFIG_H_

#include <cstdint>
#include <string>

namespace chimere::train {

/// Hyper-parameters of a `qwen35moe`, named like its GGUF metadata.
struct ModelConfig {
  int64_t n_vocab = 16384;
  int64_t n_layer = 8;  ///< without the MTP head
  int64_t n_embd = 512;
  int64_t full_attention_interval = 4;  ///< every fourth layer attends, the others are delta rules
  int64_t n_head = 8;
  int64_t n_head_kv = 2;
  int64_t head_dim = 64;
  int64_t n_rot = 32;  ///< rotated dimensions of a head, a multiple of 2
  double rope_base = 100000.0;
  static constexpr int64_t state = 64;  ///< key and value size of a delta-rule head
  int64_t n_k_head = 4;
  int64_t n_v_head = 8;
  int64_t conv = 4;
  int64_t n_expert = 6;
  int64_t n_expert_used = 2;
  int64_t n_ff = 256;  ///< hidden units of an expert, routed or shared
  double eps = 1e-6;
  int64_t context = 16384;

  int64_t key_dim() const { return state * n_k_head; }
  int64_t value_dim() const { return state * n_v_head; }
  int64_t conv_dim() const { return 2 * key_dim() + value_dim(); }
  bool is_recurrent(int64_t layer) const {
    return layer < n_layer && (layer + 1) % full_attention_interval != 0;
  }
};

/// Optimiser settings and data of a run; every step is a function of its number and the seed.
struct Recipe {
  int64_t steps = 2000;
  int64_t warmup = 100;
  int64_t batch = 32;     ///< windows a step
  int64_t window = 2048;  ///< tokens a window
  uint64_t seed = 1;
  double learning_rate = 4e-3;  ///< peak, reached after `warmup` steps
  double decay_from =
      0.4;  ///< share of the steps after which the rate falls linearly, to zero at the last
  double weight_decay = 0.05;
  double clip = 1.0;
  double mtp_weight = 0.3;
  double draft_from = 0.6;  ///< share of the steps after which the MTP head learns what the model
                            ///< itself would choose (which accepts a draft) and not the text
  double balance_weight = 0.01;
  double z_weight = 1e-3;
  double quantise_from = 0.75;  ///< share of the steps after which matrices are rounded to Q4_0
  double pull_from = 0.9;       ///< share of the steps after which weights are pulled to their grid
  double pull = 0.01;           ///< of the distance, after the last update; reached linearly
  double long_from = 0.9;       ///< share of the steps after which windows have long_window tokens
  int64_t long_window = 16384;  ///< a multiple of window; a step keeps its number of tokens
  double chat_share = 0.25;     ///< of the windows; the rest are documents
  double chat_share_final = 0.45;  ///< reached linearly over the second half
};

/// The learning rate of a step: linear warm-up, a plateau, then linear to zero at the end.
double learning_rate(const Recipe& recipe, int64_t step);
/// The fraction of their distance to the four-bit grid that weights move after a step.
double pull_share(const Recipe& recipe, int64_t step);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_CONFIG_H_
