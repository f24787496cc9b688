// chimere-train: trains, exports and evaluates the small model.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "arguments.h"
#include "compare.h"
#include "evaluate.h"
#include "model_file.h"
#include "program.h"
#include "trainer.h"

namespace chimere::train {
namespace {

constexpr const char* kUsage =
    R"(chimere-train train --documents F --chats F --heldout F --vocabulary F --out DIR
    [--steps N] [--batch N] [--window N] [--seed N] [--lr X] [--warmup N] [--decay-from X]
    [--weight-decay X] [--mtp-weight X] [--draft-from X] [--chat-share X] [--chat-share-final X]
    [--quantise-from X] [--pull-from X] [--pull X] [--long-from X] [--long-window N] [--layers N] [--width N]
    [--attention-interval N] [--heads N] [--kv-heads N] [--key-heads N] [--value-heads N]
    [--experts N] [--experts-used N] [--hidden N] [--eval-every N]
    [--save-every N] [--stop-after-minutes X] [--stop-at-step N] [--mix f32|q8_0|shipped]
    [--init F [--first-step N]] [--devices N]
  writes DIR/model.gguf and DIR/checkpoint.pt, and continues from DIR/checkpoint.pt if it exists; --init: starts
  from the weights of a GGUF, whose tokens may have other ids, and with --first-step at that step of the schedule (a lost
  checkpoint). --steps may change between stages before the rate falls; --devices: GPUs that share each step
chimere-train export --in F --out F --mix f32|q8_0|shipped
chimere-train evaluate --in F --heldout F [--window N] [--tokens N]
chimere-train divergence --base F --in F --heldout F [--window N] [--tokens N]
chimere-train score --in F --documents F        log-probability and length of each document after its last </think>
chimere-train logits --in F --tokens 1,2,3      log-probabilities of every position, one line each
chimere-train compare [--layers N]              gradients of this machine's device beside those of f32 on the CPU
)";

torch::Dtype compute_type(torch::Device device) {
  return device.is_cuda() ? torch::kBFloat16 : torch::kFloat;
}

void print_evaluation(const Evaluation& e) {
  std::printf(
      "heldout: loss %.4f nats, %.4f bits per byte, mtp first draft %.1f%% (of 4096 tokens "
      "%.1f%%), load entropy %.3f, "
      "least load %.2f, %lld tokens\n",
      e.loss, e.bits_per_byte, 100 * e.mtp_accepted, 100 * e.mtp_accepted_few, e.load_entropy,
      e.smallest_load, static_cast<long long>(e.tokens));
  std::fflush(stdout);
}

struct RunOptions {
  std::string out;
  Mix mix = Mix::kF32;
  int64_t eval_every = 0, save_every = 0, window = 0;
  double minutes = 0;
  int64_t stop_at = 0;  ///< a step
};

Status run(Trainer& trainer, const Recipe& recipe, const RunOptions& options,
           const TokenFile& heldout, const gguf::Reader& vocabulary, torch::Device device) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const std::string checkpoint = options.out + "/checkpoint.pt";
  const auto keep = [&]() -> Status {
    CHIMERE_CHECK_OK(
        write_model(trainer.model(), vocabulary, options.mix, options.out + "/model.gguf"));
    return trainer.save(checkpoint);
  };
  double since = 0;
  int64_t since_step = trainer.step_count();
  while (trainer.step_count() < recipe.steps) {
    const int64_t at = trainer.step_count() + 1;
    const bool report = at % 20 == 0 || at <= 3 || at == recipe.steps;
    const Losses l = trainer.step(report);
    if (report) {
      const double now = seconds();
      const double speed = double((at - since_step) * recipe.batch * recipe.window) / (now - since);
      std::printf(
          "step %lld/%lld  loss %.4f  mtp %.4f  balance %.3f  gradient %.2f  %.0f tok/s  %.0f s\n",
          static_cast<long long>(at), static_cast<long long>(recipe.steps), l.next, l.after,
          l.balance, l.gradient, speed, now);
      std::fflush(stdout);
      since = now;
      since_step = at;
    }
    if (options.eval_every > 0 && at % options.eval_every == 0) {
      print_evaluation(evaluate(trainer.model(), heldout, options.window, 200'000, device));
    }
    const bool late =
        (options.minutes > 0 && seconds() > 60 * options.minutes) || at == options.stop_at;
    if (late || (options.save_every > 0 && at % options.save_every == 0)) CHIMERE_CHECK_OK(keep());
    if (late) return {};
  }
  CHIMERE_CHECK_OK(keep());
  print_evaluation(evaluate(trainer.model(), heldout, options.window, 1'000'000, device));
  return {};
}

Status train(Arguments& a) {
  CHIMERE_TRY(const TokenFile documents, TokenFile::read(a.get("documents", "")));
  CHIMERE_TRY(const TokenFile chats, TokenFile::read(a.get("chats", "")));
  CHIMERE_TRY(const TokenFile heldout, TokenFile::read(a.get("heldout", "")));
  CHIMERE_TRY(const auto vocabulary, gguf::Reader::open(a.get("vocabulary", "")));
  ModelConfig config;
  config.n_vocab = documents.n_vocab;
  config.n_layer = a.integer("layers", config.n_layer);
  config.n_embd = a.integer("width", config.n_embd);
  config.full_attention_interval = a.integer("attention-interval", config.full_attention_interval);
  config.n_head = a.integer("heads", config.n_head);
  config.n_head_kv = a.integer("kv-heads", config.n_head_kv);
  config.n_k_head = a.integer("key-heads", config.n_k_head);
  config.n_v_head = a.integer("value-heads", config.n_v_head);
  config.n_ff = a.integer("hidden", config.n_ff);
  config.n_expert = a.integer("experts", config.n_expert);
  config.n_expert_used = a.integer("experts-used", config.n_expert_used);
  Recipe recipe;
  recipe.steps = a.integer("steps", recipe.steps);
  recipe.warmup = a.integer("warmup", recipe.warmup);
  recipe.batch = a.integer("batch", recipe.batch);
  recipe.window = a.integer("window", recipe.window);
  recipe.seed = static_cast<uint64_t>(a.integer("seed", 1));
  recipe.learning_rate = a.number("lr", recipe.learning_rate);
  recipe.decay_from = a.number("decay-from", recipe.decay_from);
  recipe.weight_decay = a.number("weight-decay", recipe.weight_decay);
  recipe.mtp_weight = a.number("mtp-weight", recipe.mtp_weight);
  recipe.draft_from = a.number("draft-from", recipe.draft_from);
  recipe.chat_share = a.number("chat-share", recipe.chat_share);
  recipe.chat_share_final = a.number("chat-share-final", recipe.chat_share_final);
  recipe.quantise_from = a.number("quantise-from", recipe.quantise_from);
  recipe.pull_from = a.number("pull-from", recipe.pull_from);
  recipe.pull = a.number("pull", recipe.pull);
  recipe.long_from = a.number("long-from", recipe.long_from);
  recipe.long_window = a.integer("long-window", recipe.long_window);
  const std::string init = a.get("init", "");
  const int64_t first = a.integer("first-step", 0);
  RunOptions options;
  options.out = a.get("out", ".");
  options.eval_every = a.integer("eval-every", 200);
  options.save_every = a.integer("save-every", 200);
  options.minutes = a.number("stop-after-minutes", 0);
  options.stop_at = a.integer("stop-at-step", 0);
  options.window = recipe.window;
  CHIMERE_TRY(options.mix, parse_mix(a.get("mix", "f32")));
  const int64_t n_devices = a.integer("devices", 1);
  CHIMERE_CHECK_OK(a.unread());
  if (n_devices < 1 || recipe.batch % n_devices != 0 ||
      (recipe.long_from < 1 && long_batch(recipe) % n_devices != 0)) {
    return invalid_argument("A step's windows, " + std::to_string(recipe.batch) + " and of long " +
                            "ones " + std::to_string(long_batch(recipe)) +
                            ", have to be a multiple of --devices.");
  }
  if (first < 0 || first >= recipe.steps || (first > 0 && init.empty())) {
    return invalid_argument("--first-step needs --init, and a step below --steps.");
  }
  if (chats.n_vocab != documents.n_vocab || heldout.n_vocab != documents.n_vocab) {
    return invalid_argument(
        "The token files were made with different vocabularies. Encode them again.");
  }
  std::filesystem::create_directories(options.out);

  std::unique_ptr<Group> group;
  if (n_devices > 1) {
    CHIMERE_TRY(group, fork_group(n_devices));
  }
  const bool first_member = group == nullptr || group->rank() == 0;
  const torch::Device device =
      group == nullptr ? best_device()
                       : torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(group->rank()));
  at::globalContext().setAllowTF32CuBLAS(true);
  Trainer trainer(config, recipe, documents, chats, device, compute_type(device), group.get());
  if (first_member) {
    std::printf("%lld parameters, %zu + %zu tokens, %lld x %s\n",
                static_cast<long long>(trainer.model().n_parameters()), documents.ids.size(),
                chats.ids.size(), static_cast<long long>(n_devices), device.str().c_str());
  }
  if (!init.empty()) {
    CHIMERE_TRY(const auto file, gguf::Reader::open(init));
    CHIMERE_CHECK_OK(
        read_weights(*file, trainer.model(), vocabulary->find_strings("tokenizer.ggml.tokens")));
    trainer.start_at(first);
  }
  const std::string checkpoint = options.out + "/checkpoint.pt";
  if (std::filesystem::exists(checkpoint)) {
    CHIMERE_CHECK_OK(trainer.load(checkpoint));
    if (first_member)
      std::printf("resumed at step %lld\n", static_cast<long long>(trainer.step_count()));
  }
  if (first_member) return run(trainer, recipe, options, heldout, *vocabulary, device);
  while (trainer.step_count() < recipe.steps) trainer.step(false);
  return {};
}

Status export_model(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  const std::string out = a.get("out", "");
  CHIMERE_TRY(const Mix mix, parse_mix(a.get("mix", "shipped")));
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const auto model, read_model(*file, torch::kCPU, torch::kFloat));
  return write_model(*model, *file, mix, out);
}

Status evaluate_file(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(const TokenFile heldout, TokenFile::read(a.get("heldout", "")));
  const int64_t window = a.integer("window", 2048), tokens = a.integer("tokens", 1'000'000);
  CHIMERE_CHECK_OK(a.unread());
  const torch::Device device = best_device();
  CHIMERE_TRY(const auto model, read_model(*file, device, torch::kFloat));
  print_evaluation(evaluate(*model, heldout, window, tokens, device));
  return {};
}

Status print_divergence(Arguments& a) {
  CHIMERE_TRY(const auto base_file, gguf::Reader::open(a.get("base", "")));
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(const TokenFile heldout, TokenFile::read(a.get("heldout", "")));
  const int64_t window = a.integer("window", 2048), tokens = a.integer("tokens", 200'000);
  CHIMERE_CHECK_OK(a.unread());
  const torch::Device device = best_device();
  CHIMERE_TRY(const auto base, read_model(*base_file, device, torch::kFloat));
  CHIMERE_TRY(const auto model, read_model(*file, device, torch::kFloat));
  std::printf("mean divergence %.5f nats\n",
              divergence(*base, *model, heldout, window, tokens, device));
  return {};
}

Status print_scores(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(const TokenFile documents, TokenFile::read(a.get("documents", "")));
  CHIMERE_CHECK_OK(a.unread());
  const auto& tokens = *file->find_strings("tokenizer.ggml.tokens");
  const int64_t mark = std::find(tokens.begin(), tokens.end(), "</think>") - tokens.begin();
  const torch::Device device = best_device();
  CHIMERE_TRY(const auto model, read_model(*file, device, torch::kFloat));
  for (const Score& s : score_documents(*model, documents, mark, device)) {
    std::printf("%.4f %lld\n", s.log_probability, static_cast<long long>(s.tokens));
  }
  return {};
}

Status print_logits(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  std::vector<int64_t> ids;
  const std::string list = a.get("tokens", "");
  for (const char* at = list.c_str(); *at != '\0';) {
    char* end = nullptr;
    ids.push_back(std::strtoll(at, &end, 10));
    at = *end == ',' ? end + 1 : end;
    if (at == end && *at != '\0')
      return invalid_argument("--tokens takes ids separated by commas.");
  }
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const auto model, read_model(*file, torch::kCPU, torch::kFloat));
  for (const int64_t id : ids) {
    if (id < 0 || id >= model->config().n_vocab)
      return invalid_argument("An id is outside the vocabulary.");
  }
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits =
      model->logits(model->forward(torch::tensor(ids).unsqueeze(0)).hidden)[0];
  const torch::Tensor p = logits.to(torch::kFloat).log_softmax(-1).contiguous();
  const float* value = p.data_ptr<float>();
  for (int64_t t = 0; t < p.size(0); ++t) {
    for (int64_t i = 0; i < p.size(1); ++i) std::printf("%s%.6f", i > 0 ? " " : "", *value++);
    std::printf("\n");
  }
  return {};
}

Status dispatch(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  Arguments a(argc, argv);
  if (command == "train") return train(a);
  if (command == "export") return export_model(a);
  if (command == "evaluate") return evaluate_file(a);
  if (command == "divergence") return print_divergence(a);
  if (command == "score") return print_scores(a);
  if (command == "logits") return print_logits(a);
  if (command == "compare") {
    ModelConfig config;
    config.n_layer = a.integer("layers", 4);
    CHIMERE_CHECK_OK(a.unread());
    compare_devices(config, best_device(), compute_type(best_device()));
    return {};
  }
  return invalid_argument(kUsage);
}

}  // namespace
}  // namespace chimere::train

int main(int argc, char** argv) {
  return chimere::train::run_program(argc, argv, chimere::train::dispatch);
}
