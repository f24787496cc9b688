#include <algorithm>

#include "kernels/ref/vector_ops.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {

void embed(const WeightView& table, std::span<const int32_t> tokens, ConstMatrixView vectors,
           MatrixView y) {
  int64_t next = 0;
  for (size_t r = 0; r < tokens.size(); ++r) {
    float* to = y.row(static_cast<int64_t>(r));
    if (tokens[r] < 0) {
      std::copy_n(vectors.row(next++), table.n_in, to);
    } else {
      quant::decode(table.type, table.row(tokens[r]), to, table.n_in);
    }
  }
}

}  // namespace chimere::kernels::ref
