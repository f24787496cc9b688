#include "model/sub_layer.h"

namespace chimere::model {

Status require(const kernels::Ops& ops, kernels::OptionalOp op) {
  if (ops.supports(op)) return {};
  return unsupported("the model needs the op " + std::string(kernels::optional_op_name(op)) +
                     ", which is not implemented on GPUs; run it with --backend cpu");
}

}  // namespace chimere::model
