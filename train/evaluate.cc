#include "evaluate.h"

#include <algorithm>
#include <cmath>

namespace chimere::train {
namespace {

using torch::Tensor;
namespace F = torch::nn::functional;

constexpr int64_t kDraftVocabulary = 4096;

/// [rows, window] of the file's first tokens.
Tensor windows_of(const TokenFile& file, int64_t window, int64_t max_tokens) {
  const int64_t n = std::min<int64_t>(max_tokens, static_cast<int64_t>(file.ids.size()));
  const int64_t length = std::min(window, n), rows = n / length;
  Tensor ids = torch::empty({rows, length}, torch::kInt64);
  std::copy_n(file.ids.begin(), rows * length, ids.data_ptr<int64_t>());
  return ids;
}

Tensor log_probabilities(const Model& model, const Tensor& tokens) {
  return model.logits(model.forward(tokens).hidden).to(torch::kFloat).log_softmax(-1);
}

}  // namespace

Evaluation evaluate(const Model& model, const TokenFile& file, int64_t window, int64_t max_tokens,
                    torch::Device device) {
  const torch::NoGradGuard no_grad;
  const Tensor ids = windows_of(file, window, max_tokens);
  const int64_t rows = ids.size(0), length = ids.size(1);
  double sum = 0;
  int64_t counted = 0, drafts = 0, accepted = 0, accepted_few = 0;
  Tensor load = torch::zeros({model.config().n_layer + 1, model.config().n_expert},
                             torch::device(device).dtype(torch::kFloat));
  for (int64_t row = 0; row < rows; row += 8) {
    const Tensor batch = ids.narrow(0, row, std::min<int64_t>(8, rows - row)).to(device);
    Forward forward = model.forward(batch);
    const int64_t t = length - 1;
    const Tensor logits = model.logits(forward.hidden).to(torch::kFloat);
    const Tensor target = batch.narrow(1, 1, t);
    sum +=
        F::cross_entropy(logits.narrow(1, 0, t).reshape({-1, logits.size(-1)}),
                         target.reshape({-1}), F::CrossEntropyFuncOptions().reduction(torch::kSum))
            .item<double>();
    counted += target.numel();
    // The draft made at t for t + 2 is right if the main model would choose it after the
    // text's own t + 1.
    const Tensor drafted = model.forward_mtp(forward.hidden.narrow(1, 0, t), target, forward);
    const Tensor draft = model.logits(drafted), choice = logits.argmax(-1).narrow(1, 1, t);
    const int64_t few = std::min(kDraftVocabulary, draft.size(-1));
    accepted += draft.argmax(-1).eq(choice).sum().item<int64_t>();
    accepted_few += draft.narrow(-1, 0, few).argmax(-1).eq(choice).sum().item<int64_t>();
    drafts += choice.numel();
    load += forward.load * double(batch.numel());
  }
  load = load / load.sum(-1, true);
  const Tensor entropy = -(load * (load + 1e-12).log()).sum(-1) / std::log(double(load.size(1)));
  const double loss = sum / double(counted);
  const double bytes_per_token = double(file.text_bytes) / double(file.ids.size());
  return {loss,
          loss / std::log(2.0) / bytes_per_token,
          double(accepted) / double(drafts),
          double(accepted_few) / double(drafts),
          entropy.min().item<double>(),
          load.min().item<double>() * double(load.size(1)),
          counted};
}

double divergence(const Model& base, const Model& other, const TokenFile& file, int64_t window,
                  int64_t max_tokens, torch::Device device) {
  const torch::NoGradGuard no_grad;
  const Tensor ids = windows_of(file, window, max_tokens);
  double sum = 0;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    const Tensor tokens = ids.narrow(0, row, 1).to(device);
    const Tensor p = log_probabilities(base, tokens), q = log_probabilities(other, tokens);
    sum += (p.exp() * (p - q)).sum().item<double>();
  }
  return sum / double(ids.numel());
}

std::vector<Score> score_documents(const Model& model, const TokenFile& file, int64_t mark,
                                   torch::Device device) {
  const torch::NoGradGuard no_grad;
  std::vector<Score> scores;
  for (size_t i = 0; i < file.starts.size(); ++i) {
    const auto begin = file.ids.begin() + file.starts[i];
    const auto end =
        i + 1 < file.starts.size() ? file.ids.begin() + file.starts[i + 1] - 1 : file.ids.end() - 1;
    const std::vector<int64_t> ids(begin, end);
    const auto n = static_cast<int64_t>(ids.size());
    const auto last = std::find(ids.rbegin(), ids.rend(), mark);
    const int64_t first = ids.rend() - last;  // after the mark
    const Tensor tokens = torch::tensor(ids).unsqueeze(0).to(device);
    const Tensor p = log_probabilities(model, tokens)[0].narrow(0, first - 1, n - first);
    const Tensor target = tokens[0].narrow(0, first, n - first).unsqueeze(-1);
    scores.push_back({p.gather(-1, target).sum().item<double>(), n - first});
  }
  return scores;
}

}  // namespace chimere::train
