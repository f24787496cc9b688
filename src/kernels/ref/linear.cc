#include "kernels/ref/linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/dot_rule.h"
#include "kernels/integer_weights.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {
namespace {

float tree_of_16(std::array<float, kPartials> s) {
  for (size_t half = kPartials / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) s[j] += s[j + half];
  }
  return s[0];
}

float float_dot(const WeightView& w, int64_t o, const Activations& x) {
  std::vector<float> weights(x.x.size());
  quant::decode(w.type, w.row(o), weights.data(), w.n_in);
  std::array<float, kPartials> s{};
  for (size_t i = 0; i < weights.size(); ++i) {
    s[i % kPartials] = std::fma(weights[i], x.x[i], s[i % kPartials]);
  }
  return tree_of_16(s);
}

float integer_dot(const WeightView& w, int64_t o, const Activations& x) {
  const auto group = static_cast<size_t>(scale_group(w.type));
  const size_t n_groups = x.x.size() / group;
  std::vector<int8_t> q(x.x.size());
  std::vector<float> scale(n_groups);
  std::vector<float> minimum(n_groups);
  unpack_integer_weights(w.type, w.row(o), w.n_in, q.data(), scale.data(), minimum.data());
  std::array<float, kPartials> acc{};
  for (size_t g = 0; g < n_groups; ++g) {
    const size_t block = g * group / kActivationBlock;
    int32_t dot = 0;
    int32_t sum = 0;
    for (size_t i = g * group; i < (g + 1) * group; ++i) {
      dot += q[i] * x.q[i];
      sum += x.q[i];
    }
    float& a = acc[g % kPartials];
    a = std::fma(static_cast<float>(dot), scale[g] * x.d[block], a);
    if (has_minimum(w.type)) {
      a = std::fma(-minimum[g], x.d[block] * static_cast<float>(sum), a);
    }
  }
  return tree_of_16(acc);
}

}  // namespace

Activations round_activations(const float* x, int64_t n) {
  Activations a;
  a.x.assign(x, x + n);
  a.q.resize(static_cast<size_t>(n));
  for (int64_t begin = 0; begin + kActivationBlock <= n; begin += kActivationBlock) {
    float amax = 0;
    bool finite = true;
    for (int64_t i = begin; i < begin + kActivationBlock; ++i) {
      amax = std::max(amax, std::fabs(x[i]));
      finite = finite && std::isfinite(x[i]);
    }
    float d = 0;
    if (!finite) {
      d = std::numeric_limits<float>::quiet_NaN();
    } else if (amax >= 0x1p-100F) {
      d = activation_scale(amax);
      const float id = 127.0F / amax;
      for (int64_t i = begin; i < begin + kActivationBlock; ++i) {
        a.q[static_cast<size_t>(i)] = static_cast<int8_t>(std::nearbyint(x[i] * id));
      }
    }
    a.d.push_back(d);
  }
  return a;
}

float dot(const WeightView& w, int64_t o, const Activations& x) {
  return takes_integer_dot(w.type) ? integer_dot(w, o, x) : float_dot(w, o, x);
}

void RowChange::add(const WeightView& w, float factor, const std::vector<float>& x,
                    float* y) const {
  for (const AdapterUse& use : uses) {
    const LowRankPair* const pair = step->find(w, use);
    if (pair == nullptr) continue;
    const Activations in = {x, {}, {}};
    const WeightView a = pair->a_of(w);
    Activations inner;
    for (int64_t j = 0; j < a.n_out; ++j) inner.x.push_back(float_dot(a, j, in));
    const float s = low_rank_scale(use, *pair, factor);
    for (int64_t o = 0; o < w.n_out; ++o) {
      const uint8_t* b = pair->b_at(w.target_row + o);
      float sum = 0;
      for (const float u : inner.x) {
        float weight = 0;
        quant::decode(pair->b.type, b, &weight, 1);
        sum = std::fma(weight, u, sum);
        b += pair->b_stride();
      }
      y[o] = std::fma(s, sum, y[o]);
    }
  }
}

void linear(ConstMatrixView x, std::span<const LinearJob> jobs, const StepAdapters* adapters,
            bool wanted) {
  for (int64_t r = 0; r < x.rows; ++r) {
    const Activations a = round_activations(x.row(r), x.cols);
    RowChange change;
    if (adapters != nullptr && !adapters->none()) change = {adapters, adapters->of(r, wanted)};
    for (const LinearJob& job : jobs) {
      float* y = job.y.row(r);
      for (int64_t o = 0; o < job.w.n_out; ++o) {
        const float v = dot(job.w, o, a) * job.scale;
        y[o] = job.accumulate ? y[o] + v : v;
      }
      change.add(job.w, job.scale, a.x, y);
    }
  }
}

}  // namespace chimere::kernels::ref
