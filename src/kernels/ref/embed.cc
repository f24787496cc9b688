#include "kernels/ref/vector_ops.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {

void embed(const WeightView& table, std::span<const int32_t> tokens, MatrixView y) {
  for (size_t r = 0; r < tokens.size(); ++r) {
    quant::decode(table.type, table.row(tokens[r]), y.row(static_cast<int64_t>(r)), table.n_in);
  }
}

}  // namespace chimere::kernels::ref
