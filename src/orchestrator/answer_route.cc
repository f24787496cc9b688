// The first part of an answer: what the request is about, and how much effort it gets.
#include <algorithm>

#include "orchestrator/answer_run.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {

namespace {

/// Of the most probable intents by the words: the model chooses one, and metadata lists them.
constexpr size_t kCandidates = 3;
/// Of the words and the model together; below it the model's stage abstains, too.
constexpr double kModelSure = 0.7;

/// The probability of `candidates[chosen]` after a model that gives it `confidence` and the others
/// the rest in equal parts: what words and model say as independent evidence (Bayes).
double with_model(const std::vector<Intent>& candidates, size_t chosen, double confidence) {
  const double rest = (1 - confidence) / static_cast<double>(candidates.size() - 1);
  double weighed = 0;
  double by_words = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    weighed += candidates[i].confidence * (i == chosen ? confidence : rest);
    by_words += candidates[i].confidence;
  }
  return by_words * candidates[chosen].confidence * confidence / weighed;
}

Mode mode_of(const std::string& name) {
  if (name == "fast") return Mode::kFast;
  if (name == "quality") return Mode::kQuality;
  if (name == "ultra") return Mode::kUltra;
  return Mode::kAuto;
}

}  // namespace

AnswerRun::Error AnswerRun::understand() {
  const auto began = Clock::now();
  const std::string_view question = question_of(request_);
  report_.candidates = around_.intents.ranked(question);
  report_.candidates.resize(std::min(report_.candidates.size(), kCandidates));
  std::optional<Intent> intent = around_.intents.by_rules(question);
  if (!intent) intent = around_.intents.by_files(question);
  if (!intent) intent = around_.intents.by_words(question);
  report_.seconds.emplace_back("intent",
                               std::chrono::duration<double>(Clock::now() - began).count());
  // The later stages cost time or tokens: only where something depends on the intent.
  const bool matters = !pipeline_->routes.empty() && features_.values[0] > 0;
  if (!intent && matters) intent = around_.intents.by_examples(question);
  if (!intent && pipeline_->read_intent) {
    if (auto error = ask_intent(question, intent)) return error;
  }
  if (intent) {
    report_.intent = *intent;
    reason("intent " + intent->name + " by " + intent->stage);
  } else {
    report_.intent = report_.candidates.front();
    reason("no stage is sure of the intent");
  }
  return std::nullopt;
}

AnswerRun::Error AnswerRun::ask_intent(std::string_view question, std::optional<Intent>& out) {
  std::string prompt = "Which subject does this request have:";
  std::vector<std::string> names;
  for (const Intent& candidate : report_.candidates) {
    prompt += (names.empty()                                  ? " "
               : names.size() + 1 < report_.candidates.size() ? ", "
                                                              : " or ") +
              candidate.name;
    names.push_back(candidate.name);
  }
  prompt += "? Answer with one word.\n\nRequest:\n" + std::string(question.substr(0, 2000));
  protocol::ChatReply reply;
  const protocol::ChatRequest asked = choice_request(std::move(prompt), names, request_);
  if (auto error = chat("intent", asked, {}, reply)) return error;
  const Certainty certainty = certainty_of(reply.choice);
  const auto chosen = std::ranges::find(names, reply.choice.content);
  if (names.size() < 2 || chosen == names.end()) return std::nullopt;
  const double probability = with_model(
      report_.candidates, static_cast<size_t>(chosen - names.begin()), certainty.confidence);
  if (probability >= kModelSure) out = Intent{reply.choice.content, "model", probability};
  return std::nullopt;
}

bool AnswerRun::may_probe() const {
  return model_.continues() && plain_text() && request_.logprobs < 0 && request_.stop.empty() &&
         request_.messages.back().role == "user";
}

AnswerRun::Error AnswerRun::probe() {
  if (probe_ || !may_probe() || pipeline_->enrich.probe_tokens == 0) return std::nullopt;
  return probe(base_request());
}

AnswerRun::Error AnswerRun::probe(protocol::ChatRequest request) {
  const auto began = Clock::now();
  apply_thinking("none", request);
  int64_t most = pipeline_->enrich.probe_tokens;
  if (!request_.max_tokens.first.empty()) most = std::min(most, request_.max_tokens.second);
  (void)request.settings.set(settings::kMaxTokens, std::to_string(most), "probe");
  request.logprobs = 20;
  protocol::ChatReply reply;
  if (auto error = chat("probe", request, {}, reply)) return error;
  Probe out;
  out.certainty = certainty_of(reply.choice);
  out.choice = std::move(reply.choice);
  out.choice.logprobs.clear();
  out.choice.has_logprobs = false;
  report_.scores.emplace_back("confidence", out.certainty.confidence);
  report_.entropy = out.certainty.entropy;
  report_.seconds.emplace_back("probe",
                               std::chrono::duration<double>(Clock::now() - began).count());
  step("probe", {{"confidence", out.certainty.confidence}, {"entropy", out.certainty.entropy}});
  probe_ = std::move(out);
  return std::nullopt;
}

AnswerRun::Error AnswerRun::choose_mode() {
  const QualityHistory history = around_.decisions.history(report_.intent.name);
  const RouterWeights weights = around_.decisions.weights();
  Route decided = route(features_, std::nullopt, history, weights);
  Mode wanted = mode_of(request_.orchestration.mode);
  if (wanted != Mode::kAuto) {
    reason("the request asks for mode " + std::string(mode_name(wanted)));
  } else if (pipeline_->mode != Mode::kAuto) {
    wanted = pipeline_->mode;
    reason("the pipeline has mode " + std::string(mode_name(wanted)));
  }
  report_.complexity = decided.complexity;
  if (wanted != Mode::kAuto) {
    report_.mode = wanted;
    return std::nullopt;
  }
  if (decided.complexity > kUnsureFrom && decided.complexity < kUnsureTo && may_probe()) {
    if (auto error = probe()) return error;
    if (probe_) decided = route(features_, probe_->certainty.entropy, history, weights);
  }
  report_.complexity = decided.complexity;
  report_.mode = decided.mode;
  for (std::string& why : decided.reasons) reason(std::move(why));
  return std::nullopt;
}

}  // namespace chimere::orchestrator
