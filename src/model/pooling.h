// How embedding models compute a text's embedding.
#ifndef CHIMERE_MODEL_POOLING_H_
#define CHIMERE_MODEL_POOLING_H_

namespace chimere::model {

/// How a text's embedding is computed from the final hidden states of its rows.
enum class Pooling {
  kNone,  ///< not an embedding model: predicts tokens
  kMean,  ///< the mean of all rows
  kLast,  ///< the last row
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_POOLING_H_
