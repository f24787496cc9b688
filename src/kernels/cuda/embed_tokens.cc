#include "kernels/cuda/embed_tokens.h"

#include "kernels/cuda/embed_tokens_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kEmbedTokens = {"embed_tokens", "embed_tokens"};

}  // namespace

bool embeds_on_gpu(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void embed_tokens(Stream& stream, const WeightView& table, const int32_t* tokens,
                  const int32_t* places, MatrixView y) {
  if (y.rows == 0) return;
  EmbedTokensArgs args = {};
  args.table = static_cast<const uint8_t*>(table.data);
  args.row_bytes = row_bytes(table.type, table.n_in);
  args.tokens = tokens;
  args.places = places;
  args.y = y.data;
  args.y_stride = y.stride;
  args.n = static_cast<int32_t>(table.n_in);
  args.piece_bytes = static_cast<int32_t>(row_bytes(table.type, kEmbedPiece));
  args.type = table.type;
  const auto pieces = static_cast<uint32_t>((table.n_in + kEmbedPiece - 1) / kEmbedPiece);
  stream.launch(kEmbedTokens,
                {.grid = {pieces, static_cast<uint32_t>(y.rows)},
                 .block = {kEmbedThreads},
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
