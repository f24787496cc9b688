// How embedding models compute a text's embedding.
#ifndef CHIMERE_MODEL_POOLING_H_
#define CHIMERE_MODEL_POOLING_H_

namespace chimere::model {

/// How a text's embedding is computed from the final hidden states of its rows. The values are
/// those of the GGUF format's "pooling_type".
enum class Pooling {
  kNone = 0,  ///< not pooled: a model that predicts tokens, or an encoder that gives a vector a row
  kMean = 1,  ///< the mean of all rows
  kCls = 2,   ///< the first row
  kLast = 3,  ///< the last row
  kRank = 4,  ///< a score: a head (model/rank_head.h) on a row or the mean
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_POOLING_H_
