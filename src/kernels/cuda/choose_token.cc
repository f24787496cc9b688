#include "kernels/cuda/choose_token.h"

#include "kernels/cuda/choose_token_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kChooseTokens = {"choose_token", "choose_tokens"};

static_assert(kMaxTopLogits <= kChoiceThreads);

}  // namespace

void choose_tokens(Stream& stream, TopLogits top, const TokenChoice* choices, int32_t* chosen) {
  if (top.rows == 0) return;
  const ChooseTokensArgs args = {reinterpret_cast<const TopLogitArgs*>(top.data), choices, chosen,
                                 top.count};
  stream.launch(kChooseTokens,
                {.grid = {static_cast<uint32_t>(top.rows)},
                 .block = {kChoiceThreads},
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
