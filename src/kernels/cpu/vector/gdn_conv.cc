#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

template <int kTaps>
void convolve(const ConvUnit& u) {
  for (int c = 0; c < u.channels; c += kLanes) {
    const F32x16 bias = u.bias == nullptr ? F32x16::set(0) : F32x16::load(u.bias + c);
    F32x16 weight[kTaps];
    F32x16 window[kTaps];
    for (int t = 0; t < kTaps; ++t) {
      weight[t] = F32x16::load_strided(u.weight + static_cast<int64_t>(c) * kTaps + t, kTaps);
    }
    for (int t = 1; t < kTaps; ++t) {
      window[t] = F32x16::load(u.before + (t - 1) * u.tap_stride + c);
    }
    for (int64_t r = 0; r < u.n_rows; ++r) {
      float* x = u.x + r * u.x_stride + c;
      for (int t = 1; t < kTaps; ++t) window[t - 1] = window[t];
      window[kTaps - 1] = F32x16::load(x);
      if (u.write_slot[r] >= 0) {
        float* slot = u.slots + u.write_slot[r] * u.slot_stride + c;
        for (int t = 1; t < kTaps; ++t) window[t].store(slot + (t - 1) * u.tap_stride);
      }
      if (u.keep_row != nullptr && u.keep_row[r] >= 0) {
        window[kTaps - 1].store(u.rows + u.keep_row[r] * u.row_stride + c);
      }
      F32x16 sum = bias;
      for (int t = 0; t < kTaps; ++t) sum = fma(weight[t], window[t], sum);
      (u.silu ? silu_lanes(sum) : sum).store(x);
    }
  }
}

}  // namespace

void conv(const ConvUnit& u) {
  switch (u.taps) {
    case 2:
      convolve<2>(u);
      break;
    case 3:
      convolve<3>(u);
      break;
    case 4:
      convolve<4>(u);
      break;
    case 5:
      convolve<5>(u);
      break;
    case 6:
      convolve<6>(u);
      break;
    case 7:
      convolve<7>(u);
      break;
    default:
      convolve<8>(u);
      break;
  }
  if (!u.normalise) return;
  for (int64_t r = 0; r < u.n_rows; ++r) {
    float* x = u.x + r * u.x_stride;
    const float scale = 1.0F / __builtin_sqrtf(dot16(x, x, u.channels) + u.eps);
    for (int c = 0; c < u.channels; c += kLanes) {
      (F32x16::load(x + c) * F32x16::set(scale)).store(x + c);
    }
  }
}

void fold_conv(const ConvFold& u) {
  constexpr int kMaxPast = 7;
  for (int c = 0; c < u.channels; c += kLanes) {
    F32x16 inputs[kMaxPast];  // read before the state is written in place
    for (int t = 0; t < u.past; ++t) {
      const int64_t from = t + u.n_rows;  // among the old inputs, then the rows
      inputs[t] =
          F32x16::load(from < u.past ? u.before + from * u.tap_stride + c
                                     : u.rows + u.row_blocks[from - u.past] * u.row_stride + c);
    }
    for (int t = 0; t < u.past; ++t) inputs[t].store(u.after + t * u.tap_stride + c);
  }
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
