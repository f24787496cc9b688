// The logits of one row, as far as the host has them.
#ifndef CHIMERE_ENGINE_LOGIT_ROW_H_
#define CHIMERE_ENGINE_LOGIT_ROW_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sampling/sampler.h"

namespace chimere::engine {

/// A whole row, or partial logits with a way to read the whole row where they do not decide. Lives
/// as long as the sampling of one token.
class LogitRow {
 public:
  /// Reads the whole row, without the logits of the selected tokens.
  using Read = std::function<Status(std::span<float> out)>;

  explicit LogitRow(std::span<const float> whole) : whole_(whole) {}
  /// `whole`: memory for the whole row, [vocabulary] once it is read. All arguments must outlive
  /// the row.
  LogitRow(const sampling::PartialLogits& partial, int64_t vocabulary, Read read,
           std::vector<float>& whole)
      : partial_(&partial), vocabulary_(vocabulary), read_(std::move(read)), buffer_(&whole) {}

  /// Restricts the tokens that may be sampled. `allowed` must outlive the row; empty: all tokens.
  void restrict_to(kernels::TokenMask allowed) { allowed_ = allowed; }
  kernels::TokenMask allowed() const { return allowed_; }

  /// The same token and log-probabilities for a whole row and for its partial logits. Errors: those
  /// of Sampler::sample() and of `read`.
  Result<sampling::Sampled> sample(sampling::Sampler& sampler, std::span<const int32_t> history) {
    if (partial_ != nullptr && whole_.empty()) {
      CHIMERE_TRY(std::optional<sampling::Sampled> sampled,
                  sampler.sample(*partial_, history, history.size(), allowed_));
      if (sampled) return *std::move(sampled);
    }
    CHIMERE_TRY(const std::span<const float> logits, whole());
    return sampler.sample(logits, history, history.size(), allowed_);
  }
  /// Log-sum-exp statistics; partial logits must have them.
  kernels::LogSumExp sums() const {
    return partial_ != nullptr ? *partial_->sums : sampling::log_sum_exp(whole_);
  }
  int64_t vocabulary() const {
    return partial_ != nullptr ? vocabulary_ : static_cast<int64_t>(whole_.size());
  }
  /// All logits. Errors: those of `read`.
  Result<std::span<const float>> whole() {
    if (partial_ != nullptr && whole_.empty()) {
      buffer_->resize(static_cast<size_t>(vocabulary_));
      CHIMERE_CHECK_OK(read_(*buffer_));
      for (const sampling::Candidate& c : partial_->selected) {
        (*buffer_)[static_cast<size_t>(c.id)] = c.value;
      }
      whole_ = *buffer_;
    }
    return whole_;
  }

 private:
  const sampling::PartialLogits* partial_ = nullptr;
  kernels::TokenMask allowed_;
  int64_t vocabulary_ = 0;
  Read read_;
  std::vector<float>* buffer_ = nullptr;
  std::span<const float> whole_;  ///< empty: not read yet
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_LOGIT_ROW_H_
