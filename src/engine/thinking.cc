#include "engine/thinking.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "sampling/math.h"

namespace chimere::engine {
namespace {

using End = ThinkingCounts::End;

constexpr int32_t kMaxResumes = 2;
/// A loop is a period of up to kPeriods tokens repeated this often, with at least kMinRepeated
/// tokens.
constexpr int32_t kRounds = 3;
constexpr int32_t kMinRepeated = 24;

constexpr std::string_view kSuppressed[] = {"Wait", "wait",          "Hmm",
                                            "hmm",  "Alternatively", "Actually"};

std::string_view without_spaces(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\n')) s.remove_prefix(1);
  return s;
}

}  // namespace

const char* thinking_end_name(End end) {
  switch (end) {
    case End::kItself:
      return "itself";
    case End::kBudget:
      return "budget";
    case End::kCertain:
      return "certain";
    case End::kLoop:
      return "loop";
    case End::kNone:
      break;
  }
  return "none";
}

double certainty(const kernels::LogSumExp& sums, int64_t vocabulary) {
  const sampling::Distribution d = sampling::distribution_of(sums);
  const double most = sampling::log_positive(std::max(2.0, static_cast<double>(vocabulary)));
  return 0.625 * d.p_max + 0.375 * (1 - d.entropy / most);
}

std::optional<ThinkingParams> thinking_params(const text::Tokenizer& tokenizer,
                                              const text::ReasoningTags& tags, int32_t budget) {
  if (!tags.are_tokens()) return std::nullopt;
  ThinkingParams p;
  p.budget = budget;
  p.open = tags.open.token;
  p.close = tags.close.token;
  p.forced_closing = tokenizer.encode("\nThat is enough thought; the answer follows.\n", false);
  p.after_close = tokenizer.encode("\n\n", false);
  p.resume = tokenizer.encode("\nLet me check this once more.\n", false);
  p.loop_breaker = tokenizer.encode("\nI am going round in circles. What matters is:\n", false);
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    const std::string bytes = tokenizer.token_bytes(id, false);
    const std::string_view word = without_spaces(bytes);
    if (std::ranges::find(kSuppressed, word) != std::end(kSuppressed)) p.suppressed.push_back(id);
  }
  return p;
}

Thinking::Thinking(ThinkingParams params, std::span<const int32_t> prompt, int32_t max_tokens,
                   const text::Tokenizer& tokenizer)
    : params_(std::move(params)), tokenizer_(tokenizer), tokens_left_(max_tokens) {
  const auto is_tag = [&](int32_t t) { return t == params_.open || t == params_.close; };
  const auto last = std::find_if(prompt.rbegin(), prompt.rend(), is_tag);
  if (last == prompt.rend()) return;
  if (*last == params_.open) {
    begin();
    return;
  }
  // Reasoning that ends right before the generation belongs to this message: a second block is not
  // allowed.
  const auto distance = static_cast<size_t>(last - prompt.rbegin());
  if (distance <= params_.after_close.size()) phase_ = Phase::kClosed;
}

void Thinking::begin() {
  phase_ = Phase::kReasoning;
  params_.budget = std::max(params_.budget, 0);
  if (tokens_left_ >= 0) {
    const auto tags = static_cast<int32_t>(1 + params_.after_close.size());
    const int32_t answer = std::min(params_.answer_tokens, std::max(1, tokens_left_ / 2));
    params_.budget = std::min(params_.budget, std::max(0, tokens_left_ - tags - answer));
  }
  // A closing sentence that would take up most of the budget is left out.
  if (params_.budget < 4 * static_cast<int32_t>(params_.forced_closing.size()))
    params_.forced_closing.clear();
}

bool Thinking::ends_sentence(int32_t token) const {
  const std::string bytes = tokenizer_.token_bytes(token, false);
  return !bytes.empty() && (bytes.back() == '\n' || bytes.back() == '.' || bytes.back() == '?');
}

/// The mean certainty of the last kWindow tokens has been high for kWindow tokens.
bool Thinking::is_certain() const { return certain_for_ >= static_cast<int32_t>(kWindow); }

bool Thinking::looping() const {
  for (size_t p = 1; p <= kPeriods; ++p) {
    const auto rounds = kRounds * static_cast<int32_t>(p);
    if (repeated_[p - 1] >= std::max(rounds, kMinRepeated)) return true;
  }
  return false;
}

void Thinking::add_forbidden(std::vector<int32_t>& forbidden) const {
  if (phase_ != Phase::kBefore) forbidden.push_back(params_.open);
  if (phase_ == Phase::kClosed || phase_ == Phase::kAnswer) forbidden.push_back(params_.close);
}

void Thinking::close(End end, bool with_forced_closing) {
  forced_.clear();
  const int32_t left = params_.budget - counts_.tokens;
  if (with_forced_closing && left >= static_cast<int32_t>(params_.forced_closing.size())) {
    forced_.assign(params_.forced_closing.begin(), params_.forced_closing.end());
  }
  forced_.push_back(params_.close);
  forced_.insert(forced_.end(), params_.after_close.begin(), params_.after_close.end());
  counts_.end = end;
  closing_ = true;
}

/// Decides after a draw whether other tokens must come instead, and queues them in forced_.
void Thinking::decide(int32_t drawn) {
  const int32_t left = params_.budget - counts_.tokens;
  const auto forced_closing = static_cast<int32_t>(params_.forced_closing.size());
  const bool wants_end = drawn == params_.close || tokenizer_.is_end_of_generation(drawn);
  const auto fits = [&](const std::vector<int32_t>& text) {
    return left - forced_closing > static_cast<int32_t>(text.size());
  };
  if (wants_end) {
    const bool early = counts_.tokens < params_.least && counts_.resumed < kMaxResumes;
    double sum = 0;
    for (const double c : certainties_) sum += c;
    const int32_t n = std::min(certainties_seen_, static_cast<int32_t>(kWindow));
    if (early && fits(params_.resume) && n > 0 && sum / n < params_.uncertain) {
      ++counts_.resumed;
      forced_.assign(params_.resume.begin(), params_.resume.end());
    } else {
      close(End::kItself, false);
      if (drawn == params_.close) forced_ = {params_.close};  // the model continues by itself
    }
  } else if (left <= forced_closing) {
    close(End::kBudget, true);
  } else if (looping()) {
    repeated_.fill(0);
    if (loop_broken_ || !fits(params_.loop_breaker)) {
      close(End::kLoop, true);
    } else {
      loop_broken_ = true;
      forced_.assign(params_.loop_breaker.begin(), params_.loop_breaker.end());
    }
  } else if (sentence_ended_ && is_certain() && counts_.tokens >= params_.least) {
    close(End::kCertain, true);
  }
}

void Thinking::note(int32_t token, bool forced) {
  if (tokens_left_ > 0) --tokens_left_;
  switch (phase_) {
    case Phase::kBefore:
      if (token == params_.open) begin();
      break;
    case Phase::kReasoning:
      if (token == params_.close) {
        phase_ = Phase::kClosed;
        break;
      }
      ++counts_.tokens;
      sentence_ended_ = ends_sentence(token);
      reasoning_.push_back(token);
      for (size_t p = 1; p <= kPeriods; ++p) {
        const size_t n = reasoning_.size();
        const bool same = n > p && reasoning_[n - 1 - p] == token;
        repeated_[p - 1] = same ? repeated_[p - 1] + 1 : 0;
      }
      break;
    case Phase::kClosed:
      if (!forced && !without_spaces(tokenizer_.token_bytes(token, false)).empty()) {
        phase_ = Phase::kAnswer;
      }
      break;
    case Phase::kAnswer:
      break;
  }
}

/// A sampled token replaced by `token`, with the log-probability of `token` if requested.
Result<sampling::Sampled> Thinking::as_forced(sampling::Sampled drawn, int32_t token, LogitRow& row,
                                              const sampling::SamplingParams& params) {
  drawn.id = token;
  if (params.logprobs >= 0) {
    CHIMERE_TRY(const std::span<const float> logits, row.whole());
    const float largest = *std::ranges::max_element(logits);
    drawn.logprob = static_cast<float>(logits[static_cast<size_t>(token)] -
                                       sampling::summarise(logits, largest).log_sum);
  }
  return drawn;
}

Result<sampling::Sampled> Thinking::choose(sampling::Sampler& sampler, LogitRow& row,
                                           std::span<const int32_t> history) {
  CHIMERE_TRY(sampling::Sampled drawn, row.sample(sampler, history));
  if (phase_ == Phase::kReasoning && !closing_) {
    const double c = certainty(row.sums(), row.vocabulary());
    certainties_[static_cast<size_t>(certainties_seen_++) % kWindow] = c;
    const double mean =
        std::accumulate(certainties_.begin(), certainties_.end(), 0.0) / double{kWindow};
    certain_for_ = mean >= params_.certain ? certain_for_ + 1 : 0;
    if (forced_.empty()) decide(drawn.id);
  }
  if (!forced_.empty()) {
    const int32_t token = forced_.front();
    forced_.pop_front();
    note(token, true);
    return as_forced(std::move(drawn), token, row, sampler.params());
  }

  std::vector<int32_t>& forbidden = forbidden_;
  forbidden.clear();
  add_forbidden(forbidden);
  const bool suppressed_token = phase_ == Phase::kReasoning && certain_for_ > 0 &&
                                sentence_ended_ &&
                                std::ranges::binary_search(params_.suppressed, drawn.id);
  if (suppressed_token) {
    ++counts_.suppressed_tokens;
    forbidden.insert(forbidden.end(), params_.suppressed.begin(), params_.suppressed.end());
  }
  const bool too_soon = phase_ == Phase::kClosed && tokenizer_.is_end_of_generation(drawn.id);
  const bool replaced = std::ranges::find(forbidden, drawn.id) != forbidden.end();
  // A suppressed reasoning token must be replaced by another one, not by an end of the reasoning.
  const bool within = phase_ == Phase::kReasoning && replaced;
  if (within) forbidden.push_back(params_.close);
  if (too_soon || within) {
    for (int32_t id = 0; id < static_cast<int32_t>(row.vocabulary()); ++id) {
      if (tokenizer_.is_end_of_generation(id)) forbidden.push_back(id);
    }
  }
  if (replaced || too_soon) {
    CHIMERE_TRY(const std::span<const float> logits, row.whole());
    masked_.assign(logits.begin(), logits.end());
    for (const int32_t id : forbidden) {
      masked_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
    CHIMERE_TRY(const sampling::Sampled other,
                sampler.sample(masked_, history, history.size(), row.allowed()));
    CHIMERE_TRY(drawn, as_forced(std::move(drawn), other.id, row, sampler.params()));
  }
  note(drawn.id, false);
  return drawn;
}

}  // namespace chimere::engine
