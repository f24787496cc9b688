// chimere-drafter: trains, exports and evaluates block-diffusion drafters.
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "drafter_trainer.h"
#include "model_file.h"
#include "program.h"

namespace chimere::train {
namespace {

constexpr const char* kUsage =
    R"(chimere-drafter train --target T.gguf --data FOLDER[,FOLDER...] --out F.gguf [--init F]
    [--block 16 | --blocks 8,16] [--layers 2] [--hidden 1024] [--heads 8] [--kv-heads 2] [--head-dim 64]
    [--mask-token ID] [--taps 1,3,6]
    [--anchors N] [--window N] [--batch N] [--steps N] [--seed N] [--lr X] [--warmup N] [--decay-from X] [--weight-decay X]
    [--gamma X] [--quantise-from X] [--save-every N] [--stop-after-minutes X]
  --head-dim: a multiple of 16, at most 256. --block: 2 to 64 rows, the newest token included.
  FOLDER: shards of hidden states of T (train/README.md). --taps: for shards without rows, the layers of T, counted from 0, whose
  outputs the drafter reads: T, a qwen35moe, computes them. --blocks: sizes of blocks, rising; each step trains one of them, and
  the last is the drafter's. --batch: sequences a step; --anchors: blocks of each; --window: rows of context at most,
  then and when the drafter is used; export --window changes it, 0: all rows.
  --mask-token: the target's padding token if not given. --init: the weights of another drafter, as far as it has them.
  --stop-after-minutes reduces --steps to what fits, measured over the first 30. Writes an f32 file.
chimere-drafter export --in F --target T --out F [--mix f32|q8_0|shipped] [--window N]
chimere-drafter evaluate --in F --target T --data FOLDER[,FOLDER...] [--block N] [--sequences 100]
  Replays decoding of N sequences of each kind of text in each folder: tokens a step (tau), and the share of steps whose
  first 1, 2, .. drafts are right. A --block smaller than in training uses fewer masks.
)";

constexpr int64_t kReportEvery = 50;
constexpr int64_t kMeasureFrom = 10, kMeasureTo = 30;  // steps
constexpr double kTimeShare = 0.96;  // the rest: to save, and steps of other lengths

struct Timer {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (from < list.size()) {
    const size_t to = std::min(list.find(',', from), list.size());
    if (to > from) parts.push_back(list.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

/// Numbers in rising order from `least`, none if the flag is missing.
Result<std::vector<int64_t>> rising(Arguments& a, const std::string& flag, int64_t least) {
  std::vector<int64_t> numbers;
  for (const std::string& part : split(a.get(flag, ""))) {
    char* end = nullptr;
    const int64_t number = std::strtoll(part.c_str(), &end, 10);
    if (*end != '\0' || number < (numbers.empty() ? least : numbers.back() + 1)) {
      return invalid_argument("--" + flag + " is a list of rising numbers from " +
                              std::to_string(least) + ", as in 8,16.");
    }
    numbers.push_back(number);
  }
  return numbers;
}

/// A target, and the layers that compute rows if shards have none.
struct Target {
  std::unique_ptr<gguf::Reader> file;
  torch::Device device;
  torch::Dtype compute;
  DrafterTarget parts;
  std::shared_ptr<const Model> layers;  ///< read when first needed

  static Result<Target> open(const std::string& path, torch::Device device, torch::Dtype compute) {
    CHIMERE_TRY(auto file, gguf::Reader::open(path));
    CHIMERE_TRY(DrafterTarget parts, read_target(*file, device, compute));
    return Target{std::move(file), device, compute, std::move(parts), nullptr};
  }
};

/// Shards with rows of the layers `taps`, or of any if it is empty. Errors: also, shards without
/// rows and no `taps`, or a target of an architecture that the trainer cannot run.
Result<HiddenStates> open_data(const std::vector<std::string>& folders, Target& target,
                               const std::vector<int64_t>& taps) {
  const torch::Tensor& embedding = target.parts.embedding;
  CHIMERE_TRY(HiddenStates data, HiddenStates::open(folders, embedding.size(1), embedding.size(0)));
  if (data.has_rows()) {
    if (taps.empty() || data.layers() == taps) return data;
    return invalid_data(folders.front() +
                        " has outputs of other layers than the drafter is to read.");
  }
  if (taps.empty()) {
    return invalid_argument(folders.front() +
                            " has no rows: give --taps, the layers of the target to read.");
  }
  if (target.layers == nullptr) {
    auto layers = read_model(*target.file, target.device, target.compute);
    if (!layers.ok()) {
      return Error{layers.error().code,
                   folders.front() + " has no rows, and the trainer cannot run the target: " +
                       layers.error().message};
    }
    CHIMERE_CHECK_OK(target.file->check_unchanged());
    target.layers = *std::move(layers);
  }
  CHIMERE_CHECK_OK(data.set_target(target.layers, taps));
  return data;
}

/// The flag, or the target's own mask or padding token.
Result<int64_t> mask_token(Arguments& a, const gguf::Reader& target) {
  const std::string given = a.get("mask-token", "");
  if (!given.empty()) return std::strtoll(given.c_str(), nullptr, 10);
  for (const char* key : {"tokenizer.ggml.mask_token_id", "tokenizer.ggml.padding_token_id"}) {
    if (const auto id = target.get_int(key); id.ok()) return *id;
  }
  return invalid_argument("The target names no mask or padding token: give --mask-token.");
}

/// A mask whose embedding is zero gives queries that see no difference between rows.
Status check_mask(const DrafterConfig& config, const DrafterTarget& target) {
  if (target.embedding[config.mask_token].abs().max().item<double>() > 0) return {};
  return invalid_argument("The target's embedding of token " + std::to_string(config.mask_token) +
                          " is zero. Choose another --mask-token.");
}

Status read_init(const std::string& path, BlockDrafter& model) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(path));
  std::map<std::string, torch::Tensor> there;
  for (const auto& [name, value] : model.parameters()) {
    if (file->find_tensor(name) != nullptr) there.emplace(name, value);
  }
  return read_parameters(*file, there);
}

struct RunOptions {
  std::string out;
  int64_t save_every = 500;
  double minutes = 0;  // 0: no limit
};

Status run(DrafterTrainer& trainer, const BlockDrafter& model, const RunOptions& options,
           const Timer& timer) {
  torch::Tensor sums;
  int64_t summed = 0;
  double measured_from = 0;
  while (trainer.step_count() < trainer.steps()) {
    CHIMERE_TRY(const torch::Tensor now, trainer.step());
    sums = summed++ == 0 ? now.clone() : sums.add_(now);
    const int64_t at = trainer.step_count();
    if (options.minutes > 0 && at == kMeasureFrom) {
      (void)sums.sum().item<float>();  // waits for the device
      measured_from = timer.seconds();
    }
    if (options.minutes > 0 && at == kMeasureTo) {
      (void)sums.sum().item<float>();
      const double a_step = (timer.seconds() - measured_from) / double(kMeasureTo - kMeasureFrom);
      const double left = kTimeShare * (60 * options.minutes - timer.seconds());
      const auto fit = at + static_cast<int64_t>(std::max(0.0, left) / a_step);
      trainer.set_steps(std::min(trainer.steps(), fit));
      std::printf("%.1f ms a step, %lld steps\n", 1000 * a_step,
                  static_cast<long long>(trainer.steps()));
    }
    const bool last = at >= trainer.steps();
    if (at % kReportEvery == 0 || last) {
      const torch::Tensor mean = (sums / double(summed)).to(torch::kCPU);
      const auto* value = mean.data_ptr<float>();
      std::printf("step %lld/%lld  loss %.4f  first right %.3f  accepted length %.3f  %.0f s\n",
                  static_cast<long long>(at), static_cast<long long>(trainer.steps()), value[0],
                  value[1], value[2], timer.seconds());
      std::fflush(stdout);
      summed = 0;
    }
    if (last || (options.save_every > 0 && at % options.save_every == 0)) {
      CHIMERE_CHECK_OK(write_drafter(model, Mix::kF32, options.out));
    }
  }
  return {};
}

/// --blocks or --block, and --gamma.
Result<std::vector<TrainedBlock>> trained_blocks(Arguments& a, int64_t fallback) {
  constexpr int64_t kLeast = 2;  // rows: the anchor and a draft
  CHIMERE_TRY(const auto one, rising(a, "block", kLeast));
  CHIMERE_TRY(auto sizes, rising(a, "blocks", kLeast));
  if (one.size() > 1 || (!one.empty() && !sizes.empty())) {
    return invalid_argument("Give --block N, or --blocks and a list.");
  }
  if (sizes.empty()) sizes.push_back(one.empty() ? fallback : one[0]);
  const double gamma = a.number("gamma", 0);
  std::vector<TrainedBlock> blocks;
  for (const int64_t rows : sizes) {
    blocks.push_back({rows, gamma > 0 ? gamma : default_gamma(rows)});
  }
  return blocks;
}

Status train(Arguments& a) {
  const Timer timer;
  const torch::Device device = best_device();
  CHIMERE_TRY(Target target, Target::open(a.get("target", ""), device,
                                          device.is_cuda() ? torch::kBFloat16 : torch::kFloat));
  const auto folders = split(a.get("data", ""));
  DrafterConfig config;
  CHIMERE_TRY(const auto blocks, trained_blocks(a, config.block));
  config.block = blocks.back().rows;
  CHIMERE_TRY(const auto taps, rising(a, "taps", 0));
  config.n_layer = a.integer("layers", config.n_layer);
  config.n_ff = a.integer("hidden", config.n_ff);
  config.n_head = a.integer("heads", config.n_head);
  config.n_head_kv = a.integer("kv-heads", config.n_head_kv);
  config.head_dim = a.integer("head-dim", config.head_dim);
  CHIMERE_TRY(config.mask_token, mask_token(a, *target.file));
  Recipe recipe;
  recipe.steps = a.integer("steps", 4000);
  recipe.batch = a.integer("batch", 16);
  recipe.window = a.integer("window", 512);
  recipe.seed = static_cast<uint64_t>(a.integer("seed", 1));
  recipe.learning_rate = a.number("lr", 3e-3);
  recipe.warmup = a.integer("warmup", 100);
  recipe.decay_from = a.number("decay-from", 0.4);
  recipe.weight_decay = a.number("weight-decay", 0.05);
  recipe.quantise_from = a.number("quantise-from", 0.75);
  const int64_t anchors = a.integer("anchors", 24);
  const std::string init = a.get("init", "");
  const RunOptions options{a.get("out", "drafter.gguf"), a.integer("save-every", 500),
                           a.number("stop-after-minutes", 0)};
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_CHECK_OK(config.check_shape());

  CHIMERE_TRY(const HiddenStates data, open_data(folders, target, taps));
  config.fit(target.parts);
  config.taps = data.layers();
  config.window = recipe.window + config.block;  // nothing was learnt about rows further back
  CHIMERE_CHECK_OK(config.check());
  CHIMERE_CHECK_OK(check_mask(config, target.parts));
  CHIMERE_TRY(AnchorOrder order, AnchorOrder::create(data, {recipe.batch, anchors, recipe.window,
                                                            config.block, recipe.seed}));
  BlockDrafter model(config, target.parts, recipe.seed);
  if (!init.empty()) CHIMERE_CHECK_OK(read_init(init, model));
  int64_t n_parameters = 0;
  for (const auto& [name, value] : model.parameters()) n_parameters += value.numel();
  std::printf("%lld parameters, %zu sequences\n", static_cast<long long>(n_parameters),
              data.sequences().size());
  DrafterTrainer trainer(model, order, recipe, blocks);
  return run(trainer, model, options, timer);
}

Status export_drafter(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(const auto target_file, gguf::Reader::open(a.get("target", "")));
  const std::string out = a.get("out", "");
  CHIMERE_TRY(const Mix mix, parse_mix(a.get("mix", "shipped")));
  const int64_t window = a.integer("window", -1);
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const DrafterTarget target, read_target(*target_file, torch::kCPU, torch::kFloat));
  CHIMERE_TRY(const auto model, read_drafter(*file, target));
  if (window >= 0) CHIMERE_CHECK_OK(model->set_window(window));
  return write_drafter(*model, mix, out);
}

/// `most` of the sequences that have drafts, evenly spaced, by kind of text.
std::map<std::string, std::vector<HiddenSequence>> by_set(const HiddenStates& data, size_t most) {
  std::map<std::string, std::vector<HiddenSequence>> sets;
  for (const HiddenSequence& s : data.sequences()) {
    if (s.has_drafts()) sets[data.set(s)].push_back(s);
  }
  for (auto& [name, all] : sets) {
    const size_t n = std::min(most, all.size());
    for (size_t i = 0; i < n; ++i) all[i] = all[i * all.size() / n];
    all.resize(n);
  }
  return sets;
}

Status evaluate(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(Target target, Target::open(a.get("target", ""), best_device(), torch::kFloat));
  const auto folders = split(a.get("data", ""));
  const int64_t wanted = a.integer("block", 0), most = a.integer("sequences", 100);
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const auto model, read_drafter(*file, target.parts));
  const int64_t block = wanted > 0 ? wanted : model->config().block;
  if (block < 2 || block > model->config().block || most < 1) {
    return invalid_argument("--block is between 2 and the drafter's, --sequences at least 1.");
  }
  for (const std::string& folder : folders) {
    CHIMERE_TRY(const HiddenStates data, open_data({folder}, target, model->config().taps));
    for (const auto& [set, sequences] : by_set(data, static_cast<size_t>(most))) {
      CHIMERE_TRY(const Replay result, replay(*model, data, sequences, block));
      std::printf("%s, %s: tau %.3f  (%lld tokens, %lld steps, %lld sequences)\n  accepted",
                  folder.c_str(), set.c_str(), result.tau(), static_cast<long long>(result.tokens),
                  static_cast<long long>(result.steps), static_cast<long long>(result.sequences));
      for (size_t i = 0; i < result.places.size(); ++i) {
        std::printf(" %.3f",
                    double(result.accepted[i]) / double(std::max<int64_t>(1, result.places[i])));
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return {};
}

Status dispatch(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  Arguments a(argc, argv);
  if (command == "train") return train(a);
  if (command == "export") return export_drafter(a);
  if (command == "evaluate") return evaluate(a);
  return invalid_argument(kUsage);
}

}  // namespace
}  // namespace chimere::train

int main(int argc, char** argv) {
#if defined(M_MMAP_MAX)
  // A step's tensors reuse the previous step's memory instead of fresh pages.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
  return chimere::train::run_program(argc, argv, chimere::train::dispatch);
}
