// Answers in the words of a passage, where the model's own are weak.
#include "orchestrator/answer_run.h"
#include "orchestrator/quotation.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

/// An answer's beginning whose words the passages have to this share is an answer from passages.
constexpr double kSupported = 0.5;

}  // namespace

bool AnswerRun::may_quote() const {
  return pipeline_->enrich.quote != When::kNever && !passages_.empty() && plain_text() &&
         request_.logprobs < 0 && request_.messages.back().role == "user";
}

std::string AnswerRun::quotation() {
  std::optional<Quotation> best;
  if (form_) {
    const std::vector<Fact> facts = facts_in(*form_, passages_);
    if (!facts.empty()) best = Quotation{facts[0].passage, facts[0].text, facts[0].score};
  }
  if (!best) best = quote(question_of(request_), passages_);
  if (!best) return "";
  report_.sources[best->passage].quote = best->text;
  report_.sources[best->passage].cited = true;
  report_.quoted = true;
  return "\"" + best->text + "\" [" + std::to_string(best->passage + 1) + "]";
}

AnswerRun::Error AnswerRun::answer_quoted(const std::string& text) {
  citations_.reset();  // what is quoted needs no check
  protocol::Choice answer;
  answer.content = text;
  answer.finish_reason = "stop";
  send(std::move(answer));
  return std::nullopt;
}

AnswerRun::Error AnswerRun::probe_passages(const protocol::ChatRequest& request, bool& weak) {
  weak = false;
  if (!model_.continues() || !request_.stop.empty() || pipeline_->enrich.probe_tokens == 0) {
    return std::nullopt;
  }
  if (auto error = probe(request)) return error;
  if (probe_->certainty.tokens == 0) return std::nullopt;  // the API tells no probabilities
  const std::string& text = probe_->choice.content;
  const auto support = support_of(text, question_of(request_), passages_);
  report_.scores.emplace_back("support", support.value_or(1));
  weak = probe_->certainty.confidence < pipeline_->enrich.sure || abstains(text) ||
         support.value_or(1) < kSupported;
  if (weak) reason("the model is not sure with the passages: the answer is quoted");
  return std::nullopt;
}

}  // namespace chimere::orchestrator
