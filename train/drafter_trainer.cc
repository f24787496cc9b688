#include "drafter_trainer.h"

#include <algorithm>
#include <random>

namespace chimere::train {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kLogits = int64_t{1} << 27;  // at a time: 512 MB in f32
constexpr size_t kReplayed = 16;               // sequences at a time

class WeightedCrossEntropy : public torch::autograd::Function<WeightedCrossEntropy> {
 public:
  /// The gradient is made with the logits at hand.
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& output,
                        const Tensor& target, const Tensor& weight, int64_t chunk, Tensor* choice) {
    const int64_t n = hidden.size(0);
    Tensor sum = torch::zeros({}, weight.options());
    Tensor gradient = torch::empty_like(hidden);
    if (choice != nullptr) *choice = torch::empty_like(target);
    for (int64_t from = 0; from < n; from += chunk) {
      const auto part = [&](const Tensor& x) {
        return x.narrow(0, from, std::min(chunk, n - from));
      };
      const Tensor wanted = part(target).unsqueeze(1), w = part(weight).unsqueeze(1);
      Tensor p = torch::linear(part(hidden), output).to(torch::kFloat);
      if (choice != nullptr) part(*choice).copy_(p.argmax(-1));
      const Tensor normaliser = p.logsumexp(-1, true);
      sum.add_(((normaliser - p.gather(1, wanted)) * w).sum());
      p.sub_(normaliser).exp_();
      p.scatter_add_(1, wanted, torch::full_like(w, -1.0)).mul_(w);
      part(gradient).copy_(torch::matmul(p.to(output.scalar_type()), output));
    }
    context->save_for_backward({gradient});
    return sum;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Tensor gradient = context->get_saved_variables()[0];
    const Tensor scale = grads[0].to(gradient.scalar_type());
    return {gradient * scale, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

int64_t chunk_of(const Tensor& output) { return std::max<int64_t>(1, kLogits / output.size(0)); }

/// On the device; asynchronous from pinned memory.
DrafterBatch on_device(const DrafterBatch& batch, torch::Device device) {
  const auto move = [&](const Tensor& x) {
    return x.defined() ? x.to(torch::TensorOptions(device), true) : x;
  };
  return {move(batch.rows),    move(batch.tokens),    move(batch.first),
          move(batch.anchors), move(batch.positions), move(batch.labels)};
}

/// Rows of whole texts [B, T, row_size], padded, on the device.
Tensor rows_of(const HiddenStates& data, std::span<const HiddenSequence> texts, int64_t longest,
               torch::Device device) {
  const auto b = static_cast<int64_t>(texts.size());
  if (data.has_rows()) {
    Tensor rows = torch::zeros({b, longest, data.row_size()}, torch::kHalf);
    for (int64_t i = 0; i < b; ++i) {
      const HiddenSequence& s = texts[static_cast<size_t>(i)];
      data.copy_rows(s, 0, s.size, rows[i].data_ptr());
    }
    return rows.to(device);
  }
  Tensor tokens = torch::zeros({b, longest}, torch::kLong);
  for (int64_t i = 0; i < b; ++i) {
    const auto text = data.tokens(texts[static_cast<size_t>(i)]);
    std::copy(text.begin(), text.end(), tokens[i].data_ptr<int64_t>());
  }
  return data.compute_rows(tokens.to(device));
}

}  // namespace

Tensor weighted_cross_entropy(const Tensor& hidden, const Tensor& output, const Tensor& target,
                              const Tensor& weight, int64_t chunk, Tensor* choice) {
  return WeightedCrossEntropy::apply(hidden, output, target, weight, chunk, choice);
}

double default_gamma(int64_t block) { return 1.0 + 0.375 * double(block); }

size_t block_of_step(size_t sizes, uint64_t seed, int64_t step) {
  std::seed_seq mixed{seed, seed >> 32, static_cast<uint64_t>(step)};
  std::mt19937_64 random(mixed);
  return static_cast<size_t>(random() % sizes);
}

DrafterTrainer::DrafterTrainer(BlockDrafter& model, AnchorOrder& order, const Recipe& recipe,
                               const std::vector<TrainedBlock>& blocks)
    : model_(model), order_(order), recipe_(recipe), optimizer_(model.parameters(), recipe) {
  for (const TrainedBlock& block : blocks) {
    const Tensor draft = torch::arange(block.rows - 1, torch::kFloat);
    decays_.push_back(torch::exp(draft / -block.gamma).to(model.device()));
  }
}

std::future<Result<DrafterBatch>> DrafterTrainer::prepare(int64_t step) {
  return std::async(std::launch::async,
                    [&order = order_, step, pinned = model_.device().is_cuda()] {
                      return order.batch(step, pinned);
                    });
}

Result<Tensor> DrafterTrainer::step() {
  model_.set_quantised(double(step_) >= recipe_.quantise_from * double(recipe_.steps));
  const torch::Device device = model_.device();
  if (!next_.valid()) next_ = prepare(step_);
  CHIMERE_TRY(const DrafterBatch drawn, next_.get());
  if (step_ + 1 < recipe_.steps) next_ = prepare(step_ + 1);
  const DrafterBatch batch = on_device(drawn, device);
  const Tensor& decay = decays_[block_of_step(decays_.size(), recipe_.seed, step_)];
  const int64_t drafts = decay.size(0), width = model_.config().n_embd;
  const Tensor rows = batch.rows.defined() ? batch.rows : order_.data().compute_rows(batch.tokens);
  const DrafterContext context = model_.read(rows, batch.first);
  const Tensor hidden = model_.forward(context, batch.anchors, batch.positions, drafts + 1)
                            .narrow(2, 1, drafts)
                            .reshape({-1, width});
  const Tensor labels = batch.labels.narrow(-1, 0, drafts);
  const Tensor has_label = labels >= 0;
  Tensor weight = (has_label * decay).flatten();
  weight = weight / weight.sum();
  const Tensor& output = model_.target().output;
  Tensor choice;
  const Tensor loss = weighted_cross_entropy(hidden, output, labels.clamp_min(0).flatten(), weight,
                                             chunk_of(output), &choice);
  loss.backward();
  optimizer_.step(learning_rate(recipe_, step_));
  ++step_;
  const Tensor right = (choice.view_as(labels) == labels).to(torch::kFloat);
  const Tensor blocks = has_label.select(-1, 0).sum();
  return torch::stack(
      {loss.detach(), right.select(-1, 0).sum() / blocks, right.cumprod(-1).sum() / blocks + 1});
}

Result<Replay> replay(const BlockDrafter& model, const HiddenStates& data,
                      std::vector<HiddenSequence> sequences, int64_t block) {
  if (data.layers() != model.config().taps) {
    return invalid_argument("The rows are not of the layers that the drafter reads.");
  }
  const torch::NoGradGuard no_grad;
  const torch::Device device = model.device();
  const auto drafts = static_cast<size_t>(block - 1);
  Replay out;
  out.places.resize(drafts);
  out.accepted.resize(drafts);
  std::erase_if(sequences, [](const HiddenSequence& s) { return !s.has_drafts(); });
  // Texts of like lengths share a batch.
  std::stable_sort(
      sequences.begin(), sequences.end(),
      [](const HiddenSequence& a, const HiddenSequence& b) { return a.size < b.size; });
  for (size_t from = 0; from < sequences.size(); from += kReplayed) {
    const std::span part =
        std::span(sequences).subspan(from, std::min(kReplayed, sequences.size() - from));
    const auto b = static_cast<int64_t>(part.size());
    const Tensor rows = rows_of(data, part, part.back().size, device);
    CHIMERE_CHECK_OK(data.check_unchanged());
    const DrafterContext context =
        model.read(rows, torch::zeros({b}, torch::TensorOptions(device).dtype(torch::kLong)));
    std::vector<int64_t> at, anchors(part.size());
    for (const HiddenSequence& s : part) {
      at.push_back(s.prompt);
      out.tokens += s.size - 1 - s.prompt;
    }
    out.sequences += b;
    const auto open = [&](size_t i) { return at[i] < part[i].size - 1; };
    for (bool more = true; more;) {
      for (size_t i = 0; i < part.size(); ++i) {
        anchors[i] = data.tokens(part[i])[static_cast<size_t>(at[i])];
      }
      const Tensor hidden = model.forward(context, torch::tensor(anchors).unsqueeze(1).to(device),
                                          torch::tensor(at).unsqueeze(1).to(device), block);
      const Tensor chosen =
          torch::linear(hidden.select(1, 0).narrow(1, 1, block - 1), model.target().output)
              .argmax(-1)
              .to(torch::kCPU)
              .contiguous();
      more = false;
      for (size_t i = 0; i < part.size(); ++i) {
        if (!open(i)) continue;
        const auto text = data.tokens(part[i]).subspan(static_cast<size_t>(at[i]) + 1);
        const int64_t* draft = chosen.data_ptr<int64_t>() + i * drafts;
        size_t accepted = 0;
        while (accepted < std::min(drafts, text.size()) && draft[accepted] == text[accepted]) {
          ++out.accepted[accepted++];
        }
        for (size_t k = 0; k < std::min(drafts, text.size()); ++k) ++out.places[k];
        ++out.steps;
        at[i] = std::min(at[i] + static_cast<int64_t>(accepted) + 1, part[i].size - 1);
        more = more || open(i);
      }
    }
  }
  return out;
}

}  // namespace chimere::train
