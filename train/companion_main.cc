// chimere-companion: trains, exports and runs the embedder and the reranker.
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "arguments.h"
#include "companion_trainer.h"
#include "program.h"

namespace chimere::train {
namespace {

constexpr const char* kUsage =
    R"(chimere-companion train --kind embedder|reranker --pairs F --vocabulary F --out F [--init F]
    [--steps N] [--batch N] [--tokens N] [--seed N] [--lr X] [--warmup N] [--decay-from X] [--weight-decay X] [--quantise-from X]
    [--layers N] [--width N] [--hidden N] [--heads N] [--kv-heads N] [--save-every N]
  F of --pairs: the token file of train.pairs of train/corpus/pairs.py, encoded with --special yes. --batch: pairs a step;
  --tokens: of a text at most; --init: the weights of another companion, as far as it has them. Writes an f32 file.
chimere-companion export --kind embedder|reranker --in F --out F [--mix f32|q8_0|shipped]
chimere-companion embed --in F --texts F                the vector of each document of a token file, a line each
chimere-companion score --in F --pairs F [--tokens N]   of each record, question and passages: log p(yes) - log p(no) of
                                                        each passage, a line a record
)";

Result<CompanionKind> parse_kind(const std::string& name) {
  if (name == "embedder") return CompanionKind::kEmbedder;
  if (name == "reranker") return CompanionKind::kReranker;
  return invalid_argument("--kind is embedder or reranker.");
}

struct Timer {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

Status train(Arguments& a) {
  CHIMERE_TRY(const CompanionKind kind, parse_kind(a.get("kind", "")));
  CHIMERE_TRY(const TokenFile pairs, TokenFile::read(a.get("pairs", "")));
  CHIMERE_TRY(const auto vocabulary, gguf::Reader::open(a.get("vocabulary", "")));
  CompanionConfig config;
  config.n_vocab = pairs.n_vocab;
  config.n_layer = a.integer("layers", config.n_layer);
  config.n_embd = a.integer("width", config.n_embd);
  config.n_ff = a.integer("hidden", config.n_ff);
  config.n_head = a.integer("heads", config.n_head);
  config.n_head_kv = a.integer("kv-heads", config.n_head_kv);
  Recipe recipe;
  recipe.steps = a.integer("steps", 2000);
  recipe.batch = a.integer("batch", 128);
  recipe.window = a.integer("tokens", 80);
  recipe.seed = static_cast<uint64_t>(a.integer("seed", 1));
  recipe.learning_rate = a.number("lr", 4e-3);
  recipe.warmup = a.integer("warmup", 50);
  recipe.decay_from = a.number("decay-from", 0.4);
  recipe.weight_decay = a.number("weight-decay", 0.05);
  recipe.quantise_from = a.number("quantise-from", 0.7);
  const std::string out = a.get("out", "model.gguf"), init = a.get("init", "");
  const int64_t save_every = a.integer("save-every", 500);
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const Marks marks, Marks::find(*vocabulary));
  const auto records = read_records(pairs, marks);
  const auto complete = [](const std::vector<Text>& r) { return r.size() >= 2; };
  if (recipe.batch % kGroup != 0 || recipe.batch > static_cast<int64_t>(records.size()) ||
      !std::all_of(records.begin(), records.end(), complete)) {
    return invalid_argument(
        "--batch is a multiple of 4 and at most the number of records, each of "
        "which has a passage and a question.");
  }
  const torch::Device device = best_device();
  Companion model(config, recipe.seed, device);
  if (!init.empty()) {
    CHIMERE_TRY(const auto file, gguf::Reader::open(init));
    std::map<std::string, torch::Tensor> there;
    for (const auto& [name, value] : model.parameters()) {
      if (file->find_tensor(name) != nullptr) there.emplace(name, value);
    }
    CHIMERE_CHECK_OK(read_parameters(*file, there));
  }
  int64_t n_parameters = 0;
  for (const auto& [name, value] : model.parameters()) n_parameters += value.numel();
  std::printf("%lld parameters, %zu records\n", static_cast<long long>(n_parameters),
              records.size());
  CompanionTrainer trainer(model, kind, marks, recipe, records);
  const Timer timer;
  CompanionLosses mean;
  while (trainer.step_count() < recipe.steps) {
    const CompanionLosses now = trainer.step();
    mean.loss += now.loss;
    mean.right += now.right;
    const int64_t at = trainer.step_count();
    if (at % 50 == 0 || at == recipe.steps) {
      const double n = at % 50 == 0 ? 50 : double(at % 50);
      std::printf("step %lld/%lld  loss %.4f  right %.3f  %.0f s\n", static_cast<long long>(at),
                  static_cast<long long>(recipe.steps), mean.loss / n, mean.right / n,
                  timer.seconds());
      std::fflush(stdout);
      mean = {};
    }
    if (at % save_every == 0 || at == recipe.steps) {
      CHIMERE_CHECK_OK(write_companion(model, kind, *vocabulary, Mix::kF32, out));
    }
  }
  return {};
}

Status export_companion(Arguments& a) {
  CHIMERE_TRY(const CompanionKind kind, parse_kind(a.get("kind", "")));
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  const std::string out = a.get("out", "");
  CHIMERE_TRY(const Mix mix, parse_mix(a.get("mix", "shipped")));
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const auto model, read_companion(*file, torch::kCPU));
  return write_companion(*model, kind, *file, mix, out);
}

/// Calls f with the texts of a batch at a time.
template <typename F>
void in_batches(const std::vector<std::vector<uint16_t>>& texts, const Companion& model, F f) {
  constexpr size_t kBatch = 64;
  const torch::NoGradGuard no_grad;
  for (size_t from = 0; from < texts.size(); from += kBatch) {
    const size_t to = std::min(texts.size(), from + kBatch);
    const std::vector<std::vector<uint16_t>> part(texts.begin() + static_cast<std::ptrdiff_t>(from),
                                                  texts.begin() + static_cast<std::ptrdiff_t>(to));
    f(make_batch(part, model.config().context, model.device()));
  }
}

Status embed(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(const TokenFile texts, TokenFile::read(a.get("texts", "")));
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const Marks marks, Marks::find(*file));
  CHIMERE_TRY(const auto model, read_companion(*file, best_device()));
  std::vector<std::vector<uint16_t>> all;
  for (const auto& record : read_records(texts, marks)) {
    if (record.empty()) return invalid_data("A text without tokens has no embedding.");
    all.emplace_back(record[0].begin(), record[0].end());
  }
  in_batches(all, *model, [&](const Batch& batch) {
    const torch::Tensor v = model->embed(batch).to(torch::kCPU).contiguous();
    const float* value = v.data_ptr<float>();
    for (int64_t i = 0; i < v.size(0); ++i) {
      for (int64_t d = 0; d < v.size(1); ++d) std::printf("%s%.7f", d > 0 ? " " : "", *value++);
      std::printf("\n");
    }
  });
  return {};
}

Status score(Arguments& a) {
  CHIMERE_TRY(const auto file, gguf::Reader::open(a.get("in", "")));
  CHIMERE_TRY(const TokenFile pairs, TokenFile::read(a.get("pairs", "")));
  const int64_t longest = a.integer("tokens", 120);
  CHIMERE_CHECK_OK(a.unread());
  CHIMERE_TRY(const Marks marks, Marks::find(*file));
  CHIMERE_TRY(const auto model, read_companion(*file, best_device()));
  const auto records = read_records(pairs, marks);
  std::vector<std::vector<uint16_t>> texts;
  for (const auto& record : records) {
    for (size_t i = 1; i < record.size(); ++i) {
      texts.push_back(question_and_passage(record[0], record[i], marks, longest));
    }
  }
  std::vector<double> scores;
  in_batches(texts, *model, [&](const Batch& batch) {
    const torch::Tensor p = model->next_token(batch);
    const torch::Tensor s = (p.select(1, marks.yes) - p.select(1, marks.no)).to(torch::kCPU);
    for (int64_t i = 0; i < s.size(0); ++i) scores.push_back(s[i].item<double>());
  });
  size_t at = 0;
  for (const auto& record : records) {
    for (size_t i = 1; i < record.size(); ++i) std::printf("%.6f ", scores[at++]);
    std::printf("\n");
  }
  return {};
}

Status dispatch(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  Arguments a(argc, argv);
  if (command == "train") return train(a);
  if (command == "export") return export_companion(a);
  if (command == "embed") return embed(a);
  if (command == "score") return score(a);
  return invalid_argument(kUsage);
}

}  // namespace
}  // namespace chimere::train

int main(int argc, char** argv) {
#if defined(M_MMAP_MAX)
  // A step's tensors reuse the previous step's memory instead of fresh pages: 20% faster.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
  return chimere::train::run_program(argc, argv, chimere::train::dispatch);
}
