// Answers that are searched for or judged before they are sent.
#include <algorithm>

#include "orchestrator/answer_run.h"
#include "orchestrator/search/answer_search.h"
#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

constexpr const char* kReflection =
    "A reviewer finds this answer insufficient. Name to yourself what is wrong or missing in it, "
    "then give the corrected answer alone.";

}  // namespace

bool AnswerRun::gated() const {
  const GateSpec& gate = pipeline_->gate;
  return plain_text() &&
         (gate.when == When::kAlways || (gate.when == When::kAuto && report_.mode != Mode::kFast));
}

AnswerRun::Error AnswerRun::judge(std::span<const std::string> answers,
                                  std::vector<std::optional<double>>& scores, int64_t& spent) {
  std::vector<protocol::ChatRequest> requests;
  for (const std::string& answer : answers) {
    requests.push_back(judge_request(question_of(request_), answer, request_));
  }
  std::vector<protocol::ChatReply> replies(requests.size());
  if (auto error = chat_all("judge", requests, replies)) return error;
  scores.clear();
  for (const protocol::ChatReply& reply : replies) {
    spent += cost_of(reply.usage);
    scores.push_back(probability_of_first(reply, "yes", "no"));
  }
  return std::nullopt;
}

AnswerRun::Error AnswerRun::search(const protocol::ChatRequest& request, protocol::Choice& out) {
  const auto began = Clock::now();
  SearchSpec spec = pipeline_->search;
  const bool tree =
      spec.strategy == SearchSpec::Strategy::kBeam || spec.strategy == SearchSpec::Strategy::kDvts;
  if (tree && !model_.continues()) {
    reason("the model's API continues no answers: best-of-n in place of a tree");
    spec.strategy = SearchSpec::Strategy::kBestOfN;
  }
  SearchModel model;
  model.generate = [&](std::span<const protocol::ChatRequest> requests,
                       std::span<protocol::ChatReply> replies) {
    return chat_all("search", requests, replies);
  };
  model.judge = [&](std::span<const std::string> answers, std::vector<double>& scores,
                    int64_t& spent) {
    std::vector<std::optional<double>> judged;
    auto error = judge(answers, judged, spent);
    scores.clear();
    for (const auto& score : judged) scores.push_back(score.value_or(0.5));
    return error;
  };
  model.on_round = [&](int64_t round, std::span<const Candidate> states, int64_t spent) {
    Json scores = Json::array();
    for (const Candidate& state : states) scores.push_back(state.score);
    step("search", {{"round", round}, {"scores", std::move(scores)}, {"tokens", spent}});
  };
  SearchResult result;
  if (auto error = search_answer(request, spec, model, result)) return error;
  out.content = result.best.text;
  out.finish_reason = result.best.finish_reason;
  report_.scores.emplace_back("search", result.best.score);
  reason(std::string(strategy_name(spec.strategy)) + " chose among " +
         std::to_string(result.finished.size()) + " answers");
  report_.seconds.emplace_back("search",
                               std::chrono::duration<double>(Clock::now() - began).count());
  return std::nullopt;
}

AnswerRun::Error AnswerRun::answer_checked(const protocol::ChatRequest& request) {
  protocol::Choice best;
  const bool searched = report_.mode == Mode::kUltra && plain_text() &&
                        pipeline_->search.strategy != SearchSpec::Strategy::kNone &&
                        request.messages.back().role == "user";
  if (searched) {
    if (auto error = search(request, best)) return error;
  } else {
    protocol::ChatReply reply;
    if (auto error = chat("answer", request, {}, reply)) return error;
    best = std::move(reply.choice);
  }
  if (gated() && best.tool_calls.empty()) {
    int64_t spent = 0;
    std::vector<std::optional<double>> scores;
    if (auto error = judge({&best.content, 1}, scores, spent)) return error;
    if (!scores[0]) {
      reason("the judge has no opinion of the answer");
      send_whole(best);
      return std::nullopt;
    }
    const double first = *scores[0];
    double score = first;
    report_.scores.emplace_back("gate", score);
    step("gate", {{"score", score}});
    if (score < pipeline_->gate.accept && request.messages.back().role == "user") {
      protocol::ChatRequest again = request;
      text::ChatMessage said;
      said.role = "assistant";
      said.content = best.content;
      again.messages.push_back(std::move(said));
      text::ChatMessage reflection;
      reflection.role = "user";
      reflection.content = kReflection;
      again.messages.push_back(std::move(reflection));
      protocol::ChatReply second;
      if (auto error = chat("retry", again, {}, second)) return error;
      if (auto error = judge({&second.choice.content, 1}, scores, spent)) return error;
      const double second_score = scores[0].value_or(0);
      report_.scores.emplace_back("retry", second_score);
      step("retry", {{"score", second_score}});
      const bool better = second_score > score;
      reason(better ? "the second attempt was better" : "the first attempt was kept");
      if (better) {
        score = second_score;
        best = std::move(second.choice);
      }
    }
    // The router learns from fast answers whether one generation was enough.
    score_ = report_.mode == Mode::kFast ? first : score;
  }
  send_whole(best);
  return std::nullopt;
}

}  // namespace chimere::orchestrator
