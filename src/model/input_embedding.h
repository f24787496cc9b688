// The input rows of encoders: sums of rows of several tables.
#ifndef CHIMERE_MODEL_INPUT_EMBEDDING_H_
#define CHIMERE_MODEL_INPUT_EMBEDDING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/view.h"

namespace chimere::model {

struct ModelSpec;
class WeightBinder;

/// A row is its token's embedding, plus the embedding of its segment ("token_types"), plus that of
/// its position ("position_embd"), each where the file has the table. Computed on the host, so that
/// all back ends have the same bits.
class InputEmbedding {
 public:
  InputEmbedding() = default;

  /// Without tables unless `model` is an encoder that adds rows. Problems: see WeightBinder.
  static InputEmbedding bind(const ModelSpec& model, const WeightView& tokens,
                             WeightBinder& weights);

  /// Rows are those of the token table alone.
  bool empty() const { return types_.empty() && positions_.empty(); }
  bool has_segments() const { return types_.size() > static_cast<size_t>(tokens_.n_in); }
  /// Whether row `begin` of n can begin the second segment. Errors: kInvalidArgument.
  Status check_segment(int32_t begin, size_t n) const;

  /// [tokens.size(), n_embd], for positions from `first` on; rows from `second_segment` on are of
  /// the second segment, unless it is 0. Errors: kInvalidArgument (a token or position that does
  /// not exist).
  Result<std::vector<float>> rows(std::span<const int32_t> tokens, int32_t first,
                                  int32_t second_segment) const;

 private:
  WeightView tokens_;             ///< [n_vocab, n_embd]
  std::vector<float> types_;      ///< [1 or 2, n_embd], or empty
  std::vector<float> positions_;  ///< [n, n_embd], or empty
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_INPUT_EMBEDDING_H_
