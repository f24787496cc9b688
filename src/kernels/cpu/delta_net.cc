#include "kernels/cpu/delta_net.h"

#include <algorithm>

#include "kernels/cpu/convolution.h"
#include "kernels/cpu/for_units.h"

namespace chimere::kernels::cpu {

void DeltaNet::conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
                    RecurrentView state, MatrixView qkv) {
  Convolution c;
  c.shape = {.channels = shape.conv_dim(), .taps = shape.conv_kernel};
  c.weight = weight;
  c.unit = shape.head_dim;
  c.n_normalised = 2 * shape.n_k_heads;
  c.eps = eps;
  convolve(pool_, kernels_, batch, c, state, qkv);
}

void DeltaNet::scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                    ConstMatrixView alpha, ConstMatrixView beta, const float* a,
                    const float* dt_bias, RecurrentView state, MatrixView out) {
  const int n = shape.head_dim;
  const int64_t state_floats = static_cast<int64_t>(n) * n;
  const int64_t heads = shape.n_v_heads;
  const int64_t ns = batch.n_rows * heads * state_floats / 5;
  for_units(pool_, batch.n_sequences * heads, ns, [&](int64_t i, int worker) {
    const int64_t sequence = i / heads;
    const int64_t head = i % heads;
    const int64_t k_head =
        shape.tiled_heads ? head % shape.n_k_heads : head / (heads / shape.n_k_heads);
    float* scratch = scratch_.get(worker, state_floats + scan_scratch_floats(n));
    float* slots = state.base + head * state_floats;
    ScanUnit u;
    u.head_dim = n;
    u.qkv_stride = qkv.stride;
    u.alpha_stride = alpha.stride;
    u.beta_stride = beta.stride;
    u.a = a[head];
    u.dt_bias = dt_bias[head];
    u.out_stride = out.stride;
    u.scratch = scratch + state_floats;
    float* const read = slots + batch.read_slot[sequence] * state.slot_stride;
    // Where a row block keeps the inputs of this head.
    const int64_t kept_k = k_head * n;
    const int64_t kept_corrections = shape.key_dim() + head * n;
    const int64_t kept_decay = shape.key_dim() + shape.value_dim() + head;
    if (const auto unfolded = batch.unfolded(sequence); !unfolded.empty()) {
      ScanFold f;
      f.head_dim = n;
      f.before = slots + batch.fold_from[sequence] * state.slot_stride;
      f.after = read;
      f.k = state.rows + kept_k;
      f.corrections = state.rows + kept_corrections;
      f.decay = state.rows + kept_decay;
      f.row_stride = state.row_stride;
      f.row_blocks = unfolded.data();
      f.n_rows = static_cast<int64_t>(unfolded.size());
      kernels_.fold_scan(f);
    }
    const float* current = read;
    const bool first_of_k_head =
        head == (shape.tiled_heads ? k_head : k_head * (heads / shape.n_k_heads));
    // The state passes from slot to slot, or through scratch memory where it is not to be written.
    auto run = [&](int64_t row, int count, void (*kernel)(const ScanUnit&)) {
      const int32_t slot = batch.write_slot[row + count - 1];
      u.n_rows = count;
      u.q = qkv.row(row) + k_head * n;
      u.k = u.q + shape.key_dim();
      u.v = qkv.row(row) + 2 * shape.key_dim() + head * n;
      u.alpha = alpha.row(row) + head;
      u.beta = beta.row(row) + head;
      u.out = out.row(row) + head * n;
      u.before = current;
      u.after = slot < 0 ? scratch : slots + slot * state.slot_stride;
      const int32_t keep = batch.keep(row);
      u.kept_corrections = keep < 0 ? nullptr : state.row(keep) + kept_corrections;
      u.kept_decay = keep < 0 ? nullptr : state.row(keep) + kept_decay;
      if (keep >= 0 && first_of_k_head) std::copy_n(u.k, n, state.row(keep) + kept_k);
      kernel(u);
      current = u.after;
    };
    for (int32_t s = batch.sequence_slices[sequence]; s < batch.sequence_slices[sequence + 1];
         ++s) {
      const Slice& slice = batch.slices[s];
      if (slice.row_class == RowClass::kPrefill) {
        run(slice.row_begin, slice.row_count, kernels_.scan_chunk);
      } else {
        for (int32_t r = 0; r < slice.row_count; ++r) {
          run(slice.row_begin + r, 1, kernels_.scan_step);
        }
      }
    }
  });
}

}  // namespace chimere::kernels::cpu
