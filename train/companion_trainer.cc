#include "companion_trainer.h"

#include <algorithm>

namespace chimere::train {
namespace {

using torch::Tensor;
namespace F = torch::nn::functional;

constexpr double kTemperature = 0.05;
constexpr size_t kLongestQuestion = 32;  // tokens

std::vector<uint16_t> copy(Text text, size_t longest) {
  const Text cut = text.first(std::min(text.size(), longest));
  return {cut.begin(), cut.end()};
}

double share_right(const Tensor& scores, const Tensor& target) {
  return (scores.detach().argmax(-1) == target).to(torch::kFloat).mean().item<double>();
}

}  // namespace

CompanionTrainer::CompanionTrainer(Companion& model, CompanionKind kind, const Marks& marks,
                                   const Recipe& recipe,
                                   const std::vector<std::vector<Text>>& records)
    : model_(model),
      kind_(kind),
      marks_(marks),
      recipe_(recipe),
      optimizer_(model.parameters(), recipe),
      order_(records, recipe.seed) {}

CompanionLosses CompanionTrainer::step() {
  const auto pairs = order_.pairs(step_, recipe_.batch / kGroup);
  model_.set_quantised(double(step_) >= recipe_.quantise_from * double(recipe_.steps));
  CompanionLosses out;
  const Tensor loss = kind_ == CompanionKind::kEmbedder ? embedder_loss(pairs, out.right)
                                                        : reranker_loss(pairs, out.right);
  loss.backward();
  optimizer_.step(learning_rate(recipe_, step_));
  ++step_;
  out.loss = loss.item<double>();
  return out;
}

/// InfoNCE (van den Oord et al. 2018, arXiv:1807.03748) in both directions: among all passages of
/// the step, which include similar ones, a question must find its own, and a passage its question.
Tensor CompanionTrainer::embedder_loss(const std::vector<PairOrder::Pair>& pairs,
                                       double& right) const {
  std::vector<std::vector<uint16_t>> questions, passages;
  for (const auto& pair : pairs) {
    questions.push_back(copy(pair.question, kLongestQuestion));
    passages.push_back(copy(pair.passage, static_cast<size_t>(recipe_.window)));
  }
  const Tensor q = model_.embed(make_batch(questions, kLongestQuestion, model_.device()));
  const Tensor p = model_.embed(make_batch(passages, recipe_.window, model_.device()));
  const Tensor scores = torch::matmul(q, p.transpose(0, 1)) / kTemperature;
  const Tensor own = torch::arange(scores.size(0), scores.device());
  right = share_right(scores, own);
  return (F::cross_entropy(scores, own) + F::cross_entropy(scores.transpose(0, 1), own)) / 2;
}

/// Scores each question with each passage of its group: which one answers it (cross entropy over
/// the difference of `yes` and `no`), and `yes` or `no` as the next token.
Tensor CompanionTrainer::reranker_loss(const std::vector<PairOrder::Pair>& pairs,
                                       double& right) const {
  std::vector<std::vector<uint16_t>> texts;
  std::vector<int64_t> own, answer;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t group = i / kGroup * kGroup;
    const auto question = copy(pairs[i].question, kLongestQuestion);
    for (size_t j = group; j < group + kGroup; ++j) {
      texts.push_back(question_and_passage(question, pairs[j].passage, marks_, recipe_.window));
      answer.push_back(i == j ? marks_.yes : marks_.no);
    }
    own.push_back(static_cast<int64_t>(i - group));
  }
  const Tensor p = model_.next_token(make_batch(texts, recipe_.window, model_.device()));
  const Tensor scores = (p.select(1, marks_.yes) - p.select(1, marks_.no)).view({-1, kGroup});
  const Tensor target = torch::tensor(own).to(scores.device());
  right = share_right(scores, target);
  return F::cross_entropy(scores, target) + F::nll_loss(p, torch::tensor(answer).to(p.device()));
}

}  // namespace chimere::train
