#include "orchestrator/judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// Alternatives of a token that are asked for: as many as the API gives.
constexpr int64_t kAlternatives = 20;
/// Words that have less than this together are not what the model would say: it has no opinion.
constexpr double kLeastSaid = 0.01;

/// Whether a token can begin this word, whatever its case and leading space.
bool begins(std::string_view token, std::string_view word) {
  while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
  return !token.empty() && lower(word).starts_with(lower(token));
}

}  // namespace

protocol::ChatRequest choice_request(std::string prompt, std::vector<std::string> choices,
                                     const protocol::ChatRequest& defaults) {
  protocol::ChatRequest out;
  out.settings = defaults.settings;
  out.cache_key = defaults.cache_key;
  text::ChatMessage message;
  message.role = "user";
  message.content = std::move(prompt);
  out.messages.push_back(std::move(message));
  (void)out.settings.set(settings::kTemperature, "0", "judge");
  (void)out.settings.set(settings::kReasoning, "none", "judge");
  (void)out.settings.set(settings::kMaxTokens, "8", "judge");
  out.format.kind = protocol::OutputFormat::Kind::kChoice;
  out.format.choices = std::move(choices);
  out.format.field = "guided_choice";
  out.logprobs = kAlternatives;
  return out;
}

protocol::ChatRequest judge_request(std::string_view question, std::string_view answer,
                                    const protocol::ChatRequest& defaults) {
  return choice_request("Question:\n" + std::string(question) + "\n\nAnswer:\n" +
                            std::string(answer) +
                            "\n\nIs this answer correct, and does it answer the question? Say yes "
                            "or no.",
                        {"yes", "no"}, defaults);
}

std::optional<double> probability_of_first(const protocol::ChatReply& reply, std::string_view first,
                                           std::string_view second) {
  if (reply.choice.logprobs.empty()) return std::nullopt;
  const protocol::TokenLogprobs& token = reply.choice.logprobs.front();
  double p = 0;
  double q = 0;
  double least = 0;
  bool chosen = false;
  const auto add = [&](const protocol::Logprob& l) {
    const double probability = std::exp(double{l.value});
    if (begins(l.bytes, first)) p += probability;
    if (begins(l.bytes, second)) q += probability;
    least = least == 0 ? probability : std::min(least, probability);
    chosen = chosen || l.bytes == token.token.bytes;
  };
  for (const protocol::Logprob& l : token.top) add(l);
  if (!chosen) add(token.token);
  if (p + q < kLeastSaid) return std::nullopt;
  // A word that is not listed is at most as probable as the last one that is.
  if (p == 0) p = std::min(least, q) / 2;
  if (q == 0) q = std::min(least, p) / 2;
  return p / (p + q);
}

Certainty certainty_of(const protocol::Choice& choice) {
  Certainty out;
  double sum = 0;
  for (const protocol::TokenLogprobs& token : choice.logprobs) {
    double entropy = 0;
    double listed = 0;
    for (const protocol::Logprob& l : token.top) {
      const double p = std::exp(double{l.value});
      if (p > 0) entropy -= p * double{l.value};
      listed += p;
    }
    // The rest counts as one alternative: a lower bound.
    const double rest = 1 - listed;
    if (rest > 1e-6) entropy -= rest * std::log(rest);
    out.entropy += entropy;
    sum += double{token.token.value};
    ++out.tokens;
  }
  if (out.tokens > 0) {
    out.entropy /= static_cast<double>(out.tokens);
    out.confidence = std::exp(sum / static_cast<double>(out.tokens));
  }
  return out;
}

}  // namespace chimere::orchestrator
