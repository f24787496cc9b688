#include "engram/fit_gate.h"

#include <algorithm>
#include <cmath>

namespace chimere::engram {
namespace {

constexpr double kRate = 0.02;
constexpr double kPull = 1e-4;  ///< regularisation towards Kneser-Ney
constexpr size_t kBatch = 256;

/// Adam (Kingma and Ba 2014, arXiv:1412.6980) with its usual constants.
class Adam {
 public:
  explicit Adam(size_t n) : mean_(n, 0), square_(n, 0) {}
  void step(std::span<const double> gradient, double rate, std::span<float> weights) {
    fade1_ *= 0.9;
    fade2_ *= 0.999;
    for (size_t i = 0; i < weights.size(); ++i) {
      mean_[i] = 0.9 * mean_[i] + 0.1 * gradient[i];
      square_[i] = 0.999 * square_[i] + 0.001 * gradient[i] * gradient[i];
      const double step = (mean_[i] / (1 - fade1_)) / (std::sqrt(square_[i] / (1 - fade2_)) + 1e-8);
      weights[i] -= static_cast<float>(rate * step);
    }
  }

 private:
  std::vector<double> mean_;
  std::vector<double> square_;
  double fade1_ = 1;
  double fade2_ = 1;
};

}  // namespace

void GateTrainer::add(const Memory& memory, const ModelPrediction& prediction, uint32_t target) {
  samples_.push_back({std::exp(prediction.log_probability(target)), contexts_.size()});
  const Familiarity before = memory.familiarity(0);
  for (const Evidence& e : memory.evidence(0)) {
    Context context{e.order, 0, features_of(e, prediction, before)};
    for_each_discounted(e, [&](uint32_t token, float share) {
      if (token == target) context.q = share;
    });
    contexts_.push_back(context);
  }
}

double GateTrainer::mean_nats(const Gate& gate) const {
  double sum = 0;
  for (size_t s = 0; s < samples_.size(); ++s) {
    double p = samples_[s].p_model;
    const size_t end = s + 1 < samples_.size() ? samples_[s + 1].first : contexts_.size();
    for (size_t c = samples_[s].first; c < end; ++c) {
      const double g = gate.share(contexts_[c].order, contexts_[c].features);
      p += g * (static_cast<double>(contexts_[c].q) - p);
    }
    sum -= std::log(std::max(p, 1e-12));
  }
  return sum / static_cast<double>(std::max<size_t>(1, samples_.size()));
}

void GateTrainer::add_gradient(size_t sample, const Gate& gate,
                               std::vector<double>& gradient) const {
  const size_t first = samples_[sample].first;
  const size_t end = sample + 1 < samples_.size() ? samples_[sample + 1].first : contexts_.size();
  std::array<double, kMaxOrder + 1> p = {samples_[sample].p_model};
  std::array<double, kMaxOrder> share = {};
  const size_t n = std::min(end - first, static_cast<size_t>(kMaxOrder));
  for (size_t k = 0; k < n; ++k) {
    const Context& c = contexts_[first + k];
    share[k] = gate.share(c.order, c.features);
    p[k + 1] = p[k] + share[k] * (static_cast<double>(c.q) - p[k]);
  }
  // d(-ln p_n) / d share_k = -(q_k - p_(k-1)) prod_(j>k) (1 - share_j) / p_n.
  double below = -1 / std::max(p[n], 1e-12);
  for (size_t k = n; k-- > 0;) {
    const Context& c = contexts_[first + k];
    const double slope = below * (static_cast<double>(c.q) - p[k]) * share[k] * (1 - share[k]);
    const auto row = static_cast<size_t>(c.order - 1) * kFeatures;
    for (size_t i = 0; i < kFeatures; ++i)
      gradient[row + i] += slope * static_cast<double>(c.features[i]);
    below *= 1 - share[k];
  }
}

GateTrainer::Fitted GateTrainer::fit(int epochs) const {
  const Gate start = Gate::kneser_ney();
  Gate gate = start;
  Adam adam(gate.values_.size());
  std::vector<double> gradient(gate.values_.size());
  const size_t batches = (samples_.size() + kBatch - 1) / kBatch;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    // Linear decay to zero, so that the last steps converge.
    const double rate = kRate * (1 - static_cast<double>(epoch) / epochs);
    for (size_t batch = 0; batch < batches; ++batch) {
      std::ranges::fill(gradient, 0);
      // Strided, because neighbouring positions are similar.
      for (size_t s = batch; s < samples_.size(); s += batches) add_gradient(s, gate, gradient);
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] =
            gradient[i] / kBatch + kPull * static_cast<double>(gate.values_[i] - start.values_[i]);
      }
      adam.step(gradient, rate, gate.values_);
    }
  }
  return {gate, mean_nats(start), mean_nats(gate)};
}

}  // namespace chimere::engram
