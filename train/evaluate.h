// Measurements of finished models.
#ifndef CHIMERE_TRAIN_EVALUATE_H_
#define CHIMERE_TRAIN_EVALUATE_H_

#include <torch/torch.h>

#include <vector>

#include "model.h"
#include "token_file.h"

namespace chimere::train {

/// Over at most `max_tokens` tokens of the file, in windows of `window` tokens, each from an empty
/// state. Every token but a window's first counts. bits_per_byte uses the file's mean bytes a
/// token.
struct Evaluation {
  double loss = 0;  ///< nats a token
  double bits_per_byte = 0;
  double mtp_accepted =
      0;  ///< share of positions where the MTP head's best token is the main model's next choice
  double mtp_accepted_few =
      0;                    ///< the same with drafts from the first 4,096 tokens, the oldest merges
  double load_entropy = 0;  ///< of the experts, smallest layer, as a share of the maximum
  double smallest_load = 0;  ///< of an expert, as a share of even load
  int64_t tokens = 0;
};
Evaluation evaluate(const Model& model, const TokenFile& file, int64_t window, int64_t max_tokens,
                    torch::Device device);

/// Mean Kullback-Leibler divergence, in nats, of the next-token distributions of `other` from those
/// of `base`, as evaluate() reads the file.
double divergence(const Model& base, const Model& other, const TokenFile& file, int64_t window,
                  int64_t max_tokens, torch::Device device);

/// Of each document, the log-probability in nats and the number of the tokens after the last token
/// `mark` in it.
struct Score {
  double log_probability = 0;
  int64_t tokens = 0;
};
std::vector<Score> score_documents(const Model& model, const TokenFile& file, int64_t mark,
                                   torch::Device device);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_EVALUATE_H_
