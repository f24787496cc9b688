#include "orchestrator/search/answer_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace chimere::orchestrator {
namespace {

using protocol::ApiError;
using protocol::ChatReply;
using protocol::ChatRequest;

/// A walk of `kSteps` steps, each right with a probability: the answer is right if all are. A
/// judge that knows the truth, or one that knows nothing.
class Walk {
 public:
  static constexpr int kSteps = 5;
  Walk(uint32_t seed, double p, bool knows) : random_(seed), p_(p), knows_(knows) {}

  SearchModel model() {
    SearchModel out;
    out.generate = [this](std::span<const ChatRequest> requests, std::span<ChatReply> replies) {
      for (size_t i = 0; i < requests.size(); ++i) reply(requests[i], replies[i]);
      return std::optional<ApiError>();
    };
    out.judge = [this](std::span<const std::string> answers, std::vector<double>& scores,
                       int64_t& spent) {
      scores.clear();
      for (const std::string& a : answers) {
        spent += 1;
        scores.push_back(knows_ ? (a.find('x') == std::string::npos ? 0.9 : 0.1)
                                : std::uniform_real_distribution<double>(0, 1)(random_));
      }
      return std::optional<ApiError>();
    };
    return out;
  }

 private:
  void reply(const ChatRequest& request, ChatReply& out) {
    const auto& last = request.messages.back();
    const std::string begun = last.role == "assistant" ? last.content : "";
    auto done = std::count(begun.begin(), begun.end(), '\n') / 2;
    const bool one_step = !request.stop.empty();
    while (done < kSteps) {
      out.choice.content += std::bernoulli_distribution(p_)(random_) ? "o" : "x";
      out.usage.completion_tokens += 1;
      ++done;
      if (done == kSteps) break;
      if (one_step) {
        out.choice.stop_text = "\n\n";
        break;
      }
      out.choice.content += "\n\n";
    }
    out.choice.finish_reason = "stop";
    // The prompt is cached but for one token.
    out.usage.prompt_tokens = 10;
    out.usage.cached_tokens = 9;
  }

  std::mt19937 random_;
  const double p_;
  const bool knows_;
};

ChatRequest question() {
  ChatRequest out;
  text::ChatMessage message;
  message.role = "user";
  message.content = "walk";
  out.messages.push_back(message);
  return out;
}

/// The share of right answers.
double accuracy(SearchSpec spec, bool knows, int64_t* spent = nullptr, uint32_t problems = 100) {
  int right = 0;
  for (uint32_t problem = 0; problem < problems; ++problem) {
    Walk walk(problem, 0.6, knows);
    SearchResult result;
    EXPECT_FALSE(search_answer(question(), spec, walk.model(), result));
    EXPECT_EQ(std::count(result.best.text.begin(), result.best.text.end(), '\n'),
              2 * (Walk::kSteps - 1))
        << result.best.text;
    EXPECT_TRUE(result.best.finished);
    right += result.best.text.find('x') == std::string::npos ? 1 : 0;
    if (spent != nullptr) *spent = std::max(*spent, result.spent);
  }
  return right / static_cast<double>(problems);
}

SearchSpec spec_of(SearchSpec::Strategy strategy) {
  SearchSpec spec;
  spec.strategy = strategy;
  spec.width = 4;
  spec.branches = 3;
  return spec;
}

TEST(AnswerSearch, TreesWithAJudgeThatKnowsBeatWholeAnswers) {
  const double one = std::pow(0.6, Walk::kSteps);
  const double best_of_n = accuracy(spec_of(SearchSpec::Strategy::kBestOfN), true);
  const double beam = accuracy(spec_of(SearchSpec::Strategy::kBeam), true);
  const double dvts = accuracy(spec_of(SearchSpec::Strategy::kDvts), true);
  EXPECT_GT(best_of_n, one + 0.1);
  EXPECT_GT(beam, best_of_n + 0.2);
  EXPECT_GT(dvts, best_of_n + 0.2);
}

TEST(AnswerSearch, ARandomJudgeGainsNothing) {
  const double one = std::pow(0.6, Walk::kSteps);
  for (const auto strategy :
       {SearchSpec::Strategy::kBestOfN, SearchSpec::Strategy::kBeam, SearchSpec::Strategy::kDvts}) {
    EXPECT_NEAR(accuracy(spec_of(strategy), false), one, 0.08);
  }
}

TEST(AnswerSearch, TheBudgetCountsDecodingAndScoring) {
  for (const auto strategy :
       {SearchSpec::Strategy::kBestOfN, SearchSpec::Strategy::kBeam, SearchSpec::Strategy::kDvts}) {
    SearchSpec spec = spec_of(strategy);
    spec.width = 16;
    int64_t unlimited = 0;
    (void)accuracy(spec, true, &unlimited, 10);
    spec.budget = 60;
    int64_t spent = 0;
    (void)accuracy(spec, true, &spent, 10);
    // The first round of a tree, and the rest of one answer, are always made.
    EXPECT_LE(spent, strategy == SearchSpec::Strategy::kBestOfN ? 70 : 16 * 3 * 3 + 10);
    EXPECT_LT(spent, unlimited);
  }
}

TEST(AnswerSearch, SubtreesStayApart) {
  SearchSpec spec = spec_of(SearchSpec::Strategy::kDvts);
  Walk walk(3, 0.9, true);
  SearchModel model = walk.model();
  std::vector<size_t> states;
  model.on_round = [&](int64_t, std::span<const Candidate> s, int64_t) {
    states.push_back(s.size());
  };
  SearchResult result;
  ASSERT_FALSE(search_answer(question(), spec, model, result));
  EXPECT_EQ(states.front(), 4U);
  EXPECT_EQ(result.finished.size(), 4U);
}

TEST(AnswerSearch, TheMajorityCountsFinalAnswers) {
  EXPECT_EQ(final_answer("Let me see.\nThe answer is **42**.\n"), "42");
  EXPECT_EQ(final_answer("So: Paris!"), "so paris");
  EXPECT_EQ(final_answer(""), "");
  int n = 0;
  SearchModel model;
  model.generate = [&](std::span<const ChatRequest> requests, std::span<ChatReply> replies) {
    for (size_t i = 0; i < requests.size(); ++i) {
      replies[i].choice.content = "It is " + std::to_string(n++ % 3 == 0 ? 7 : 8);
      replies[i].choice.finish_reason = "stop";
    }
    return std::optional<ApiError>();
  };
  SearchSpec spec = spec_of(SearchSpec::Strategy::kMajority);
  spec.width = 6;
  SearchResult result;
  ASSERT_FALSE(search_answer(question(), spec, model, result));
  EXPECT_EQ(result.best.text, "It is 8");
  EXPECT_NEAR(result.best.score, 4.0 / 6, 1e-9);

  // A judge that sees no difference leaves it to the majority, and keeps its score.
  model.judge = [](std::span<const std::string> answers, std::vector<double>& scores, int64_t&) {
    scores.assign(answers.size(), 0.5);
    return std::optional<ApiError>();
  };
  spec.strategy = SearchSpec::Strategy::kBestOfN;
  n = 0;
  ASSERT_FALSE(search_answer(question(), spec, model, result));
  EXPECT_EQ(result.best.text, "It is 8");
  EXPECT_NEAR(result.best.score, 0.5, 1e-9);
}

}  // namespace
}  // namespace chimere::orchestrator
