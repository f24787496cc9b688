// Compares the whole chain with a plain implementation: sort all tokens, compute all probabilities,
// remove tokens, and draw by definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/philox.h"
#include "sampling/sampler.h"

namespace chimere::sampling {
namespace {

struct Token {
  double logit = 0;
  int32_t id = 0;
};

/// Follows llama.cpp's samplers step by step (described in its src/llama-sampler.cpp), with the
/// differences listed in docs/sampling.md.
class PlainChain {
 public:
  PlainChain(const std::vector<float>& logits, std::vector<int32_t> history, uint64_t position,
             const SamplingParams& params)
      : history_(std::move(history)), position_(position), p_(params) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!std::isinf(logits[i])) tokens_.push_back({logits[i], static_cast<int32_t>(i)});
    }
  }

  std::vector<Token> run() {
    for (const LogitBias& b : p_.logit_bias) {
      for (Token& t : tokens_) t.logit = static_cast<float>(t.logit) + (t.id == b.id ? b.bias : 0);
    }
    std::erase_if(tokens_, [](const Token& t) { return std::isinf(t.logit); });
    for (const SamplerType sampler : p_.order) {
      sort();
      apply(sampler);
    }
    sort();
    return tokens_;
  }

  static std::vector<double> softmax(const std::vector<Token>& tokens) {
    double total = 0;
    std::vector<double> p;
    for (const Token& t : tokens) {
      p.push_back(std::exp(t.logit - tokens[0].logit));
      total += p.back();
    }
    for (double& x : p) x /= total;
    return p;
  }

 private:
  void sort() {
    std::ranges::sort(tokens_, [](const Token& a, const Token& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
    });
  }

  double entropy() const {
    double h = 0;
    for (const double p : softmax(tokens_)) h -= p > 0 ? p * std::log(p) : 0;
    return h;
  }

  void adjust(int32_t id, float repeat, float minus) {
    for (Token& t : tokens_) {
      // The logit processor works on plain logits: undo the temperature and apply it again.
      if (t.id == id)
        t.logit =
            LogitAdjustment{id, repeat, minus}.apply(static_cast<float>(t.logit * temperature_)) /
            temperature_;
    }
  }

  void apply(SamplerType sampler) {
    const std::vector<double> p = softmax(tokens_);
    size_t kept = tokens_.size();
    switch (sampler) {
      case SamplerType::kPenalties: {
        auto window = history_;
        if (p_.penalty_window >= 0 && window.size() > static_cast<size_t>(p_.penalty_window)) {
          window.erase(window.begin(), window.end() - p_.penalty_window);
        }
        std::map<int32_t, int> counts;
        for (const int32_t id : window) ++counts[id];
        for (const auto& [id, n] : counts) {
          adjust(id, p_.repeat_penalty,
                 static_cast<float>(n) * p_.frequency_penalty + p_.presence_penalty);
        }
        break;
      }
      case SamplerType::kDry:  // dry_test.cc has its own plain implementation
        for (const LogitAdjustment& e : dry_adjustments(history_, p_.dry))
          adjust(e.id, e.repeat, e.minus);
        break;
      case SamplerType::kTopNSigma: {
        if (p_.top_n_sigma <= 0) break;
        double mean = 0;
        for (const Token& t : tokens_) mean += t.logit / static_cast<double>(tokens_.size());
        double variance = 0;
        for (const Token& t : tokens_) {
          variance += (t.logit - mean) * (t.logit - mean) / static_cast<double>(tokens_.size());
        }
        const double floor = tokens_[0].logit - p_.top_n_sigma * std::sqrt(variance);
        std::erase_if(tokens_, [&](const Token& t) { return t.logit < floor; });
        break;
      }
      case SamplerType::kTopK:
        if (p_.top_k > 0) tokens_.resize(std::min(tokens_.size(), static_cast<size_t>(p_.top_k)));
        break;
      case SamplerType::kTopP: {
        double sum = 0;
        for (size_t i = 0; i < p.size() && p_.top_p < 1; ++i) {
          sum += p[i];
          if (sum >= p_.top_p) {
            kept = i + 1;
            break;
          }
        }
        tokens_.resize(kept);
        break;
      }
      case SamplerType::kMinP:
        if (p_.min_p > 0) {
          std::erase_if(tokens_, [this, top = tokens_[0].logit](const Token& t) {
            return t.logit < top + std::log(static_cast<double>(p_.min_p));
          });
        }
        break;
      case SamplerType::kTypical: {
        if (p_.typical >= 1) break;
        const double h = entropy();
        std::vector<size_t> order(p.size());
        for (size_t i = 0; i < p.size(); ++i) order[i] = i;
        std::ranges::stable_sort(order, {},
                                 [&](size_t i) { return std::fabs(-std::log(p[i]) - h); });
        double sum = 0;
        std::vector<Token> kept_tokens;
        for (const size_t i : order) {
          kept_tokens.push_back(tokens_[i]);
          sum += p[i];
          if (sum > p_.typical) break;
        }
        tokens_ = kept_tokens;
        break;
      }
      case SamplerType::kXtc: {
        if (p_.xtc_probability <= 0 || p_.xtc_threshold > 0.5F) break;
        if (kernels::uniform(p_.seed, position_, 0, kernels::RandomStream::kXtc) >
            p_.xtc_probability)
          break;
        size_t last = 0;
        while (last + 1 < p.size() && p[last + 1] >= p_.xtc_threshold) ++last;
        tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(last));
        break;
      }
      case SamplerType::kTemperature: {
        double t = p_.temperature;
        if (p_.dynatemp_range > 0 && tokens_.size() > 1) {
          const double low = std::max(0.0, t - p_.dynatemp_range);
          const double share = entropy() / std::log(static_cast<double>(tokens_.size()));
          t = low + (t + p_.dynatemp_range - low) *
                        std::pow(share, static_cast<double>(p_.dynatemp_exponent));
        }
        if (t == 0) {
          tokens_.resize(1);
          break;
        }
        for (Token& token : tokens_) token.logit /= t;
        temperature_ *= t;
        break;
      }
    }
  }

  std::vector<Token> tokens_;
  std::vector<int32_t> history_;
  uint64_t position_;
  const SamplingParams& p_;
  double temperature_ = 1;
};

int32_t gumbel_argmax_of(const std::vector<Token>& tokens, uint64_t seed, uint64_t position) {
  double best = -std::numeric_limits<double>::infinity();
  int32_t winner = -1;
  for (const Token& t : tokens) {
    const double u = kernels::uniform(seed, position, static_cast<uint32_t>(t.id));
    const double score = t.logit - std::log(-std::log(u));
    if (score > best || (score == best && t.id < winner)) {
      best = score;
      winner = t.id;
    }
  }
  return winner;
}

SamplingParams random_params(std::mt19937& random) {
  SamplingParams p;
  const auto pick = [&](auto... values) {
    const std::array<float, sizeof...(values)> all = {static_cast<float>(values)...};
    return all[random() % all.size()];
  };
  p.seed = static_cast<uint64_t>(random()) << 32 | random();
  p.repeat_penalty = pick(1, 1, 1.3);
  p.frequency_penalty = pick(0, 0, 0.2);
  p.presence_penalty = pick(0, 0, 0.5);
  p.penalty_window = static_cast<int32_t>(pick(64, -1, 3, 0));
  p.dry.multiplier = pick(0, 0, 0.8);
  // Not 2: with two tokens the lesser one would be exactly at the threshold, and rounding would
  // decide.
  p.top_n_sigma = pick(-1, -1, 0.5, 1, 1.9);
  p.top_k = static_cast<int32_t>(pick(0, 0, 1, 7, 40, 2500));
  p.typical = pick(1, 1, 0.3, 0.9);
  // Not 0.5: half of a few equally likely tokens would be exactly at the threshold.
  p.top_p = pick(1, 1, 0.51, 0.95);
  p.min_p = pick(0, 0, 0.05, 0.5);
  p.xtc_probability = pick(0, 0.5, 1);
  p.xtc_threshold = pick(0.1, 0.01, 0.4);
  p.temperature = pick(1, 0.7, 1.5, 0);
  p.dynatemp_range = pick(0, 0, 0.5);
  p.dynatemp_exponent = pick(1, 2);
  if (random() % 2 == 0) std::ranges::shuffle(p.order, random);
  if (random() % 4 == 0) p.order.resize(random() % 9);
  if (random() % 3 == 0) p.logit_bias = {{3, 4}, {5, -std::numeric_limits<float>::infinity()}};
  return p;
}

/// Some of n tokens, about one in `divisor`, and always token 0; the others are masked in `logits`.
std::vector<uint32_t> random_set(std::mt19937& random, std::vector<float>& logits,
                                 uint32_t divisor) {
  std::vector<uint32_t> set(static_cast<size_t>(kernels::mask_words(std::ssize(logits))));
  const bool most = random() % 2 == 0;  // all but one in `divisor`
  for (size_t id = 0; id < logits.size(); ++id) {
    if (id == 0 || (random() % divisor == 0) != most) {
      set[id / 32] |= 1U << (id % 32);
    } else {
      logits[id] = -std::numeric_limits<float>::infinity();
    }
  }
  return set;
}

TEST(Chain, AgreesWithThePlainImplementation) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    const size_t n = std::array<size_t, 4>{8, 60, 700, 6000}[random() % 4];
    std::normal_distribution<float> normal(0, std::array{0.1F, 1.F, 4.F}[random() % 3]);
    std::vector<float> logits(n);
    for (float& l : logits) l = normal(random);
    if (round % 5 == 0) {
      for (float& l : logits) l = std::rint(l * 4) / 4;  // many ties
    }
    if (round % 3 == 0) logits[1] = -std::numeric_limits<float>::infinity();
    std::vector<int32_t> history(random() % 30);
    for (int32_t& t : history) t = static_cast<int32_t>(random() % 6);
    const SamplingParams p = random_params(random);
    std::vector<float> allowed = logits;
    std::vector<uint32_t> set;
    if (random() % 2 == 0)
      set = random_set(random, allowed, std::array{2U, 30U, 2000U}[random() % 3]);
    ASSERT_TRUE(validate(p).ok()) << validate(p).error().message;
    Sampler sampler(p);
    for (uint64_t position = 0; position < 4; ++position) {
      const auto left = PlainChain(allowed, history, position, p).run();
      const auto got = sampler.sample(logits, history, position, set);
      ASSERT_TRUE(got.ok());
      ASSERT_EQ(got->id, gumbel_argmax_of(left, p.seed, position))
          << "round " << round << " of " << n << " tokens, " << left.size() << " left";
    }
  }
}

TEST(Mirostat, FollowsTheDefinitionAndItsCopiesReplay) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const size_t n : {50U, 5000U}) {
    SamplingParams p;
    p.mirostat = 2;
    p.mirostat_tau = 3;
    p.mirostat_eta = 0.2F;
    p.temperature = 0.8F;
    p.top_k = 1;  // has no effect
    p.seed = random();
    Sampler sampler(p);
    double mu = 6;
    std::normal_distribution<float> normal(0, 2);
    double negative_log_likelihoods = 0;
    constexpr int kTokens = 1600;
    for (uint64_t position = 0; position < kTokens; ++position) {
      std::vector<float> logits(n);
      for (float& l : logits) l = normal(random);
      Sampler fork = sampler;
      const auto got = sampler.sample(logits, {}, position);
      ASSERT_TRUE(got.ok());
      ASSERT_EQ(fork.sample(logits, {}, position)->id, got->id);

      std::vector<Token> tokens;
      for (size_t i = 0; i < n; ++i) {
        tokens.push_back({logits[i] / static_cast<double>(p.temperature), static_cast<int32_t>(i)});
      }
      std::ranges::sort(tokens, std::greater<>(), &Token::logit);
      const std::vector<double> all = PlainChain::softmax(tokens);
      size_t kept = 1;
      while (kept < n && -std::log2(all[kept]) <= mu) ++kept;
      tokens.resize(kept);
      ASSERT_EQ(got->id, gumbel_argmax_of(tokens, p.seed, position));
      const std::vector<double> left = PlainChain::softmax(tokens);
      const auto at = std::ranges::find(tokens, got->id, &Token::id) - tokens.begin();
      const double negative_log_likelihood = -std::log2(left[static_cast<size_t>(at)]);
      mu -= p.mirostat_eta * (negative_log_likelihood - p.mirostat_tau);
      negative_log_likelihoods += negative_log_likelihood;
    }
    EXPECT_NEAR(negative_log_likelihoods / kTokens, p.mirostat_tau,
                0.4);  // the purpose of Mirostat
  }
}

TEST(Samplers, HaveLlamaCppsNames) {
  for (const auto* name : {"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "typical", "top_p",
                           "min_p", "xtc", "temperature"}) {
    EXPECT_TRUE(parse_sampler(name).has_value()) << name;
  }
  EXPECT_FALSE(parse_sampler("top-k").has_value());
}

}  // namespace
}  // namespace chimere::sampling
