#include "kernels/cuda/sequence_attention.h"

#include "kernels/cuda/sequence_attention_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRotateHeads = {"sequence_attention", "rotate_heads"};
constexpr Kernel kAttendSequences = {"sequence_attention", "attend_sequences"};
static_assert(kMostSequenceHeadDim == kMaxSequenceHeadDim);

void rotate_heads(Stream& stream, const DeviceBatch& batch, const AttentionShape& shape, int heads,
                  const float* rope, MatrixView x) {
  stream.launch(kRotateHeads,
                {.grid = {static_cast<uint32_t>(batch.extent.n_rows)},
                 .block = {kSequenceThreads},
                 .overlaps_previous = true},
                RotateHeadsArgs{{x.data, x.stride},
                                rope,
                                batch.args.row_position,
                                heads,
                                shape.head_dim,
                                shape.rope_dims});
}

}  // namespace

void attend_sequences(Stream& stream, const DeviceBatch& batch, const SequenceAttentionShape& shape,
                      const float* rope, MatrixView q, MatrixView k, ConstMatrixView v,
                      MatrixView out) {
  const AttentionShape& heads = shape.heads;
  if (rope != nullptr) {
    rotate_heads(stream, batch, heads, heads.n_heads, rope, q);
    rotate_heads(stream, batch, heads, heads.n_kv_heads, rope, k);
  }
  AttendSequencesArgs args = {};
  args.q = {q.data, q.stride};
  args.k = {k.data, k.stride};
  args.v = {v.data, v.stride};
  args.out = {out.data, out.stride};
  args.row_position = batch.args.row_position;
  args.row_visible = batch.args.row_visible;
  args.alibi_slopes = shape.alibi_slopes;
  args.rows = batch.extent.n_rows;
  args.head_dim = heads.head_dim;
  args.group = heads.n_heads / heads.n_kv_heads;
  args.window = shape.window;
  args.scale = heads.scale;
  const auto tiles = static_cast<uint32_t>((args.rows + kSequenceQueries - 1) / kSequenceQueries);
  const auto shared =
      static_cast<uint32_t>(sequence_shared_floats(args.head_dim)) * uint32_t{sizeof(float)};
  stream.launch(kAttendSequences,
                {.grid = {tiles, static_cast<uint32_t>(heads.n_heads)},
                 .block = {kSequenceThreads},
                 .shared_bytes = shared,
                 .overlaps_previous = true},
                args);
}

}  // namespace chimere::kernels::cuda
