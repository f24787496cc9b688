#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// Vectors of a head that are computed together: enough independent chains to hide the latency of a
/// fused multiply-add.
constexpr int kTogether = F32x16::kRegisters >= 32 ? 4 : F32x16::kRegisters >= 8 ? 2 : 1;

template <int kVectors, bool kRead>
void ssd_columns(const SsdStep& s, int64_t p) {
  const F32x16 g = F32x16::set(s.g);
  F32x16 u[kVectors];
  F32x16 y[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    u[v] = F32x16::load(s.u + p + v * kLanes);
    y[v] = F32x16::set(0);
  }
  const float* before = s.before + p;
  float* after = s.after + p;
  for (int n = 0; n < s.state_dim; ++n) {
    const F32x16 b = F32x16::set(s.b[n]);
    const F32x16 c = F32x16::set(kRead ? s.c[n] : 0);
    for (int v = 0; v < kVectors; ++v) {
      const F32x16 state = fma(b, u[v], g * F32x16::load(before + v * kLanes));
      state.store(after + v * kLanes);
      if (kRead) y[v] = fma(c, state, y[v]);
    }
    before += s.head_dim;
    after += s.head_dim;
  }
  if (!kRead) return;
  const F32x16 d = F32x16::set(s.d);
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = p + v * kLanes;
    fma(d, F32x16::load(s.x + at), y[v]).store(s.out + at);
  }
}

template <bool kRead>
void ssd(const SsdStep& s) {
  int64_t p = 0;
  for (; p + kTogether * kLanes <= s.head_dim; p += kTogether * kLanes) {
    ssd_columns<kTogether, kRead>(s, p);
  }
  for (; p < s.head_dim; p += kLanes) ssd_columns<1, kRead>(s, p);
}

template <bool kRead>
CHIMERE_INLINE F32x16 selective(const SelectiveStep& s, const F32x16& dt, const F32x16& u) {
  F32x16 y = F32x16::set(0);
  for (int n = 0; n < s.state_dim; ++n) {
    const int64_t at = static_cast<int64_t>(n) * kLanes;
    const F32x16 g = exp_lanes(dt * F32x16::load(s.a + at));
    const F32x16 state = fma(F32x16::set(s.b[n]), u, g * F32x16::load(s.before + at));
    state.store(s.after + at);
    if (kRead) y = fma(F32x16::set(s.c[n]), state, y);
  }
  return y;
}

}  // namespace

void ssd_step(const SsdStep& s) { ssd<true>(s); }
void ssd_fold(const SsdStep& s) { ssd<false>(s); }

void selective_step(const SelectiveStep& s) {
  const F32x16 x = F32x16::load(s.x);
  const F32x16 dt = softplus_lanes(F32x16::load(s.dt) + F32x16::load(s.dt_bias));
  const F32x16 u = dt * x;
  if (s.kept_dt != nullptr) {
    dt.store(s.kept_dt);
    u.store(s.kept_u);
  }
  const F32x16 y = selective<true>(s, dt, u);
  fma(F32x16::load(s.d), x, y).store(s.out);
}

void selective_fold(const SelectiveStep& s) {
  selective<false>(s, F32x16::load(s.dt), F32x16::load(s.x));
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
