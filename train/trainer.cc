#include "trainer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "quantise.h"

namespace chimere::train {
namespace {

using torch::Tensor;

/// The recipe of the steps with long windows: as many tokens, in fewer rows.
Recipe long_recipe(Recipe recipe) {
  recipe.batch = long_batch(recipe);
  recipe.window = recipe.long_window;
  return recipe;
}

/// Members compute the same updates from the same sums, and differ only by the order of sums in
/// libraries; they are made equal every so many steps.
constexpr int64_t kShareEvery = 100;

}  // namespace

int64_t long_batch(const Recipe& recipe) {
  return std::max<int64_t>(1, recipe.batch * recipe.window / recipe.long_window);
}

Trainer::Trainer(const ModelConfig& config, const Recipe& recipe, const TokenFile& documents,
                 const TokenFile& chats, torch::Device device, torch::Dtype compute, Group* group)
    : recipe_(recipe),
      group_(group),
      device_(device),
      model_(std::make_unique<Model>(config, recipe.seed, device, compute)),
      optimizer_(model_->parameters(), recipe),
      order_(documents, chats, recipe),
      long_order_(documents, chats, long_recipe(recipe)) {}

Tensor Trainer::own_windows(const Tensor& windows) const {
  if (group_ == nullptr) return windows;
  TORCH_CHECK(windows.size(0) % group_->size() == 0, "a step's windows cannot be divided evenly");
  const int64_t rows = windows.size(0) / group_->size();
  return windows.narrow(0, group_->rank() * rows, rows).contiguous();
}

void Trainer::add_gradients() {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> all;
  for (const auto& [name, value] : model_->parameters()) {
    all.push_back((value.grad().defined() ? value.grad() : torch::zeros_like(value)).flatten());
  }
  Tensor sums = torch::cat(all) / double(group_->size());
  group_->sum(sums);
  int64_t at = 0;
  for (auto& [name, value] : model_->parameters()) {
    value.mutable_grad() = sums.narrow(0, at, value.numel()).view(value.sizes());
    at += value.numel();
  }
}

void Trainer::share_weights() {
  const torch::NoGradGuard no_grad;
  for (auto& [name, value] : model_->parameters()) group_->share(value);
}

Losses Trainer::step(bool want_losses) {
  const double share = double(step_) / double(recipe_.steps);
  model_->set_quantised(share >= recipe_.quantise_from);
  WindowOrder& order = share >= recipe_.long_from ? long_order_ : order_;
  if (group_ != nullptr && step_ % kShareEvery == 0) share_weights();
  Tensor tokens = own_windows(order.windows(step_));
  // From pinned memory the copy is asynchronous.
  if (device_.is_cuda()) tokens = tokens.pin_memory().to(torch::TensorOptions(device_), true);
  const auto shifted = [&](int64_t by) { return tokens.narrow(1, by, tokens.size(1) - 2); };
  Forward forward = model_->forward(shifted(0));
  Tensor choice, wanted = shifted(2);
  const bool own = share >= recipe_.draft_from;
  const Tensor next = model_->cross_entropy(forward.hidden, shifted(1), own ? &choice : nullptr);
  if (own) {
    const int64_t last = wanted.size(1) - 1;  // the position after it was not computed
    wanted = torch::cat({choice.narrow(1, 1, last), wanted.narrow(1, last, 1)}, 1);
  }
  const Tensor drafted = model_->forward_mtp(forward.hidden, shifted(1), forward);
  const Tensor after = model_->cross_entropy(drafted, wanted);
  const double routers = double(model_->config().n_layer + 1);
  const Tensor loss = next + recipe_.mtp_weight * after +
                      forward.balance * (recipe_.balance_weight / routers) +
                      forward.router_z * (recipe_.z_weight / routers);
  loss.backward();
  if (group_ != nullptr) add_gradients();
  const Tensor norm = optimizer_.step(learning_rate(recipe_, step_));
  if (const double pull = pull_share(recipe_, step_); pull > 0) {
    for (auto& [name, value] : model_->parameters()) {
      if (has_four_bits(name, value)) pull_to_four_bits(value, pull);
    }
  }
  ++step_;
  if (!want_losses) return {};
  return {next.item<double>(), after.item<double>(), forward.balance.item<double>() / routers,
          norm.item<double>()};
}

Status Trainer::save(const std::string& path) {
  try {
    torch::serialize::OutputArchive archive;
    for (const auto& [name, value] : model_->parameters())
      archive.write("weight." + name, value.detach());
    for (const auto& [name, value] : optimizer_.state()) archive.write(name, value);
    archive.write("step", torch::tensor(step_));
    archive.write("updates", torch::tensor(optimizer_.count()));
    archive.save_to(path);
  } catch (const c10::Error& e) {
    return io_error("Cannot write the checkpoint " + path + ": " + e.what_without_backtrace());
  }
  return {};
}

Status Trainer::load(const std::string& path) {
  try {
    const torch::NoGradGuard no_grad;
    torch::serialize::InputArchive archive;
    archive.load_from(path, device_);
    const auto read = [&](const std::string& name, Tensor& into) {
      Tensor value;
      archive.read(name, value);
      TORCH_CHECK(value.sizes() == into.sizes(), name, " has another shape");
      into.copy_(value);
    };
    for (auto& [name, value] : model_->parameters()) read("weight." + name, value);
    for (auto& [name, value] : optimizer_.state()) read(name, value);
    Tensor number = torch::tensor(int64_t{0});
    read("step", number);
    step_ = number.item<int64_t>();
    read("updates", number);
    optimizer_.set_count(number.item<int64_t>());
  } catch (const c10::Error& e) {
    return invalid_data("Cannot resume from " + path + ": " + e.what_without_backtrace());
  }
  return {};
}

}  // namespace chimere::train
