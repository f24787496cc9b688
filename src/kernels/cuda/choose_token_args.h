// Arguments of the kernel of choose_token.cu.
#ifndef CHIMERE_KERNELS_CUDA_CHOOSE_TOKEN_ARGS_H_
#define CHIMERE_KERNELS_CUDA_CHOOSE_TOKEN_ARGS_H_

#include <cstdint>

#include "kernels/cuda/top_logits_args.h"
#include "kernels/token_choice.h"

namespace chimere::kernels::cuda {

/// One thread per top logit of a row.
inline constexpr int kChoiceThreads = 128;

/// Grid: rows.
struct ChooseTokensArgs {
  const TopLogitArgs* top;     ///< [rows, count]
  const TokenChoice* choices;  ///< [rows]
  int32_t* chosen;             ///< [rows]
  int32_t count;               ///< at most kChoiceThreads
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CHOOSE_TOKEN_ARGS_H_
