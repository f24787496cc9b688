#include "trainer.h"

#include <algorithm>
#include <future>
#include <utility>

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

std::vector<std::unique_ptr<Model>> copies(const ModelConfig& config, uint64_t seed,
                                           const std::vector<torch::Device>& devices,
                                           torch::Dtype compute) {
  std::vector<std::unique_ptr<Model>> models;
  for (const torch::Device& device : devices) {
    models.push_back(std::make_unique<Model>(config, seed, device, compute));
  }
  return models;
}

}  // namespace

/// Means over one device's tokens, on that device.
struct Trainer::Sums {
  Tensor next, after, balance;
};

int64_t long_batch(const Recipe& recipe) {
  return std::max<int64_t>(1, recipe.batch * recipe.window / recipe.long_window);
}

Trainer::Trainer(const ModelConfig& config, const Recipe& recipe, const TokenFile& documents,
                 const TokenFile& chats, const std::vector<torch::Device>& devices,
                 torch::Dtype compute)
    : recipe_(recipe),
      models_(copies(config, recipe.seed, devices, compute)),
      optimizer_(models_[0]->parameters(), recipe),
      order_(documents, chats, recipe),
      long_order_(documents, chats, long_recipe(recipe)) {}

Trainer::Sums Trainer::backward(Model& model, const Tensor& windows) const {
  const torch::Device device = model.device();
  const c10::DeviceGuard guard(device);
  const double share = double(step_) / double(recipe_.steps);
  model.set_quantised(share >= recipe_.quantise_from);
  Tensor tokens = windows;
  // From pinned memory the copy waits for nothing that the device still does.
  if (device.is_cuda()) tokens = tokens.pin_memory().to(torch::TensorOptions(device), true);
  const auto shifted = [&](int64_t by) { return tokens.narrow(1, by, tokens.size(1) - 2); };
  Forward forward = model.forward(shifted(0));
  Tensor choice, wanted = shifted(2);
  const bool own = share >= recipe_.draft_from;
  const Tensor next = model.cross_entropy(forward.hidden, shifted(1), own ? &choice : nullptr);
  if (own) {
    const int64_t last = wanted.size(1) - 1;  // the position after it was not computed
    wanted = torch::cat({choice.narrow(1, 1, last), wanted.narrow(1, last, 1)}, 1);
  }
  const Tensor drafted = model.forward_mtp(forward.hidden, shifted(1), forward);
  const Tensor after = model.cross_entropy(drafted, wanted);
  const double routers = double(model.config().n_layer + 1);
  const Tensor loss = next + recipe_.mtp_weight * after +
                      forward.balance * (recipe_.balance_weight / routers) +
                      forward.router_z * (recipe_.z_weight / routers);
  (loss / double(models_.size())).backward();
  return {next.detach(), after.detach(), forward.balance.detach() / routers};
}

void Trainer::copy_weights_to_others() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 1; i < models_.size(); ++i) {
    for (auto& [name, value] : models_[i]->parameters()) {
      value.copy_(models_[0]->parameters().at(name), /*non_blocking=*/true);
    }
  }
}

void Trainer::add_gradients_of_others() {
  const torch::NoGradGuard no_grad;
  for (auto& [name, value] : models_[0]->parameters()) {
    for (size_t i = 1; i < models_.size(); ++i) {
      Tensor& other = models_[i]->parameters().at(name).mutable_grad();
      if (!other.defined()) continue;
      value.mutable_grad().add_(other.to(torch::TensorOptions(value.device()), true));
      other = Tensor();
    }
  }
}

Losses Trainer::step(bool want_losses) {
  const double share = double(step_) / double(recipe_.steps);
  WindowOrder& order = share >= recipe_.long_from ? long_order_ : order_;
  const Tensor windows = order.windows(step_);
  const auto parts = static_cast<int64_t>(models_.size());
  TORCH_CHECK(windows.size(0) % parts == 0, "a step's windows cannot be shared out");
  copy_weights_to_others();
  // Every device's work is enqueued by a thread of its own; none waits for its device.
  std::vector<std::future<Sums>> others;
  const auto part = [&](int64_t i) {
    const int64_t rows = windows.size(0) / parts;
    return backward(*models_[static_cast<size_t>(i)], windows.narrow(0, i * rows, rows));
  };
  for (int64_t i = 1; i < parts; ++i) {
    others.push_back(std::async(std::launch::async, [&part, i] { return part(i); }));
  }
  std::vector<Sums> sums{part(0)};
  for (auto& other : others) sums.push_back(other.get());
  add_gradients_of_others();
  const Tensor norm = optimizer_.step(learning_rate(recipe_, step_));
  if (const double pull = pull_share(recipe_, step_); pull > 0) {
    for (auto& [name, value] : model().parameters()) {
      if (has_four_bits(name, value)) pull_to_four_bits(value, pull);
    }
  }
  ++step_;
  if (!want_losses) return {};
  Losses losses;
  for (const Sums& s : sums) {
    losses.next += s.next.item<double>() / double(parts);
    losses.after += s.after.item<double>() / double(parts);
    losses.balance += s.balance.item<double>() / double(parts);
  }
  losses.gradient = norm.item<double>();
  return losses;
}

Status Trainer::save(const std::string& path) {
  try {
    torch::serialize::OutputArchive archive;
    for (const auto& [name, value] : model().parameters())
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
    archive.load_from(path, model().device());
    const auto read = [&](const std::string& name, Tensor& into) {
      Tensor value;
      archive.read(name, value);
      TORCH_CHECK(value.sizes() == into.sizes(), name, " has another shape");
      into.copy_(value);
    };
    for (auto& [name, value] : model().parameters()) read("weight." + name, value);
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
