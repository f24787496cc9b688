#include "kernels/cuda/norm.h"

#include "kernels/cuda/norm_args.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRmsNorm = {"norm", "rms_norm"};
constexpr Kernel kRmsNormWide = {"norm", "rms_norm_wide"};
constexpr Kernel kLayerNorm = {"norm", "layer_norm"};
constexpr Kernel kGatedRmsNorm = {"norm", "gated_rms_norm"};
constexpr Kernel kGroupRmsNorm = {"norm", "group_rms_norm"};
constexpr Kernel kGatedGroupRmsNorm = {"norm", "gated_group_rms_norm"};

}  // namespace

void rms_norm(Stream& stream, ConstMatrixView x, const float* weight, float eps, MatrixView y,
              const RoundedRows& rounded) {
  // Few rows wait for memory, and a block for each holds its row at once. Of many rows, a
  // multiprocessor has several.
  const bool few = x.rows <= kFewNormRows;
  const bool wide = few && x.cols > kNormElements * kNormThreads;
  const Launch launch = {.grid = {static_cast<uint32_t>(x.rows)},
                         .block = {static_cast<uint32_t>(wide ? kWideNormThreads : kNormThreads)},
                         .shared_bytes = static_cast<uint32_t>((x.cols + 1) * sizeof(float)),
                         .overlaps_previous = true};
  stream.launch(wide ? kRmsNormWide : kRmsNorm, launch,
                RmsNormArgs{x.data, x.stride, weight, y.data, y.stride, rounded,
                            static_cast<int32_t>(x.cols), eps, few ? 1 : 0});
}

void layer_norm(Stream& stream, ConstMatrixView x, const float* weight, const float* bias,
                float eps, MatrixView y) {
  const Launch launch = {.grid = {static_cast<uint32_t>(x.rows)},
                         .block = {kLayerNormThreads},
                         .shared_bytes = static_cast<uint32_t>(x.cols * sizeof(float)),
                         .overlaps_previous = true};
  stream.launch(kLayerNorm, launch,
                LayerNormArgs{x.data, x.stride, weight, bias, y.data, y.stride,
                              static_cast<int32_t>(x.cols), eps});
}

void gated_rms_norm(Stream& stream, ConstMatrixView x, ConstMatrixView z, const float* weight,
                    int head_dim, float eps, MatrixView y, const RoundedRows& rounded) {
  const auto rows = static_cast<int32_t>(x.rows);
  const auto heads = static_cast<int32_t>(x.cols / head_dim);
  constexpr uint32_t kWarps = kGatedNormThreads / 32;
  const uint32_t units = static_cast<uint32_t>(rows) * static_cast<uint32_t>(heads);
  const Launch launch = {.grid = {(units + kWarps - 1) / kWarps},
                         .block = {kGatedNormThreads},
                         .overlaps_previous = true};
  stream.launch(kGatedRmsNorm, launch,
                GatedRmsNormArgs{x.data, x.stride, z.data, z.stride, weight, y.data, y.stride,
                                 rounded, rows, heads, head_dim, eps});
}

void group_rms_norm(Stream& stream, ConstMatrixView x, const float* weight, int group, float eps,
                    MatrixView y) {
  const auto groups = static_cast<int32_t>(x.cols / group);
  constexpr int64_t kWarps = kGatedNormThreads / 32;
  const int64_t units = x.rows * groups;
  const Launch launch = {.grid = {static_cast<uint32_t>((units + kWarps - 1) / kWarps)},
                         .block = {kGatedNormThreads},
                         .overlaps_previous = true};
  stream.launch(kGroupRmsNorm, launch,
                GroupRmsNormArgs{x.data, x.stride, weight, y.data, y.stride,
                                 static_cast<int32_t>(x.rows), groups, group, eps});
}

bool takes_gated_group(int group) { return group % 32 == 0 && group <= kMaxGatedGroup; }

void gated_group_rms_norm(Stream& stream, ConstMatrixView x, const float* weight, int group,
                          float eps, MatrixView z, const RoundedRows& rounded) {
  const auto groups = static_cast<int32_t>(x.cols / group);
  constexpr int64_t kWarps = kGatedNormThreads / 32;
  const int64_t units = x.rows * groups;
  const Launch launch = {.grid = {static_cast<uint32_t>((units + kWarps - 1) / kWarps)},
                         .block = {kGatedNormThreads},
                         .overlaps_previous = true};
  stream.launch(kGatedGroupRmsNorm, launch,
                GatedGroupNormArgs{x.data, x.stride, weight, z.data, z.stride, rounded,
                                   static_cast<int32_t>(x.rows), groups, group, eps});
}

}  // namespace chimere::kernels::cuda
