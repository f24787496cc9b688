// Speculative decoding: speed and acceptance of every mode relative to `off`, for
// questions, continuations of held-out documents, texts to repeat with a change, and such copies
// that have begun.
//
//   speculation_bench MODEL EVALUATION [--prompts N] [--tokens N] [--runs N] [--sequences N]
//   [--threads N] [--draft-tokens N] [--modes off,auto] [--draft-model FILE] [--texts FILE,...]
//   [--temperature T] [--top-k N] [--seed N] [--verify all] [--drafts likeliest]
//   [--backend cpu|cuda] [--times FILE]
//
// EVALUATION: the folder models/evaluation. The modes alternate (off, mtp, ngram, auto, off, ...);
// each mode has its own engine, whose draft statistics carry over from prompt to prompt, and the
// fastest run of a prompt counts. "tok/step": tokens of a generation for each of its decode steps.
// "rejected" and "drafted": rejected rows and drafts computed by the model, for each 100 tokens.
// Exits with 1 if a text differs from that of the first mode.
//
// --verify all: all drafts are verified, in every step, so that tok/step does not depend on
// measured times; without `auto`, which measures. --drafts likeliest: the drafters do not draw
// with the random numbers of sampled generations. --texts: sets to be continued instead of those of
// EVALUATION, as draft_prompts.py writes them. --times: steps take the times of the file (one of
// step_times/), so that the modes are compared as on another machine, with the acceptance of this
// model; the same command prints the same figures.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/speculation/dflash_drafter.h"
#include "engine/speculation/mtp_drafter.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device/device.h"
#include "model/model.h"
#include "model/vocabulary.h"
#include "simulated_times.h"
#include "text/tokenizer.h"

namespace chimere {
namespace {

using engine::Speculation;

using Mode = std::pair<std::string, Speculation>;

/// Another drafter that takes the likeliest tokens, whatever the temperature.
class LikeliestDrafts final : public engine::Drafter {
 public:
  explicit LikeliestDrafts(std::unique_ptr<engine::Drafter> drafter)
      : drafter_(std::move(drafter)) {}

  std::unique_ptr<engine::DrafterState> start(const sampling::SamplingParams& params) override {
    sampling::SamplingParams greedy = params;
    greedy.temperature = 0;
    return drafter_->start(greedy);
  }
  Status propose(std::span<const engine::DraftTarget> targets) override {
    return drafter_->propose(targets);
  }
  int32_t most_of_pass() const override { return drafter_->most_of_pass(); }
  std::span<const int32_t> taps() const override { return drafter_->taps(); }
  void observe(std::span<const engine::ObservedRows> rows) override { drafter_->observe(rows); }

 private:
  std::unique_ptr<engine::Drafter> drafter_;
};

template <const engine::DrafterType& kType>
engine::DrafterType likeliest() {
  engine::DrafterType type = kType;
  type.create = [](const engine::DrafterModels& models) -> std::unique_ptr<engine::Drafter> {
    auto drafter = kType.create(models);
    if (drafter == nullptr) return nullptr;
    return std::make_unique<LikeliestDrafts>(std::move(drafter));
  };
  return type;
}

/// The engine's drafters with those that draw at random replaced.
std::vector<const engine::DrafterType*> likeliest_drafters() {
  static const engine::DrafterType dflash = likeliest<engine::kDflashDrafter>();
  static const engine::DrafterType mtp = likeliest<engine::kMtpDrafter>();
  const auto types = engine::drafter_types();
  std::vector<const engine::DrafterType*> all(types.begin(), types.end());
  std::ranges::replace(all, &engine::kDflashDrafter, &dflash);
  std::ranges::replace(all, &engine::kMtpDrafter, &mtp);
  return all;
}

struct Options {
  std::string model;
  std::string evaluation;
  std::string draft_model;  ///< empty: none
  size_t prompts = 100;
  int32_t tokens = 96;
  int runs = 3;
  size_t sequences = 1;
  int threads = 2;
  int draft_tokens = 0;
  std::vector<std::string> texts;  ///< files; empty: the sets of `evaluation`
  float temperature = 0.8F;        ///< of sampled generations
  int top_k = 0;
  int seed = 1;  ///< of the first prompt of a set; that of the next is one more
  bool verify_all = false;
  bool on_gpu = false;  ///< the first one
  bool likeliest_drafts = false;
  std::optional<StepTimes> times;  ///< of another machine
  std::vector<Mode> modes = {{"off", Speculation::off()},
                             {"dflash", *Speculation::named("dflash")},
                             {"mtp", *Speculation::named("mtp")},
                             {"ngram", *Speculation::named("ngram")},
                             {"auto", Speculation::automatic()}};  ///< `off` first
};

/// With one thread its CPU time in seconds, which other processes hardly disturb; with several
/// threads or a GPU the wall clock.
double measured_now(const Options& options) {
  timespec t = {};
  clock_gettime(options.threads == 1 && !options.on_gpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
                &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Set {
  std::string name;
  std::vector<std::vector<int32_t>> prompts;
};

struct RunResult {
  double seconds = 0;
  int64_t tokens = 0;
  int64_t drafted = 0;
  int64_t accepted = 0;
  int64_t asked = 0;
  int64_t decoded = 0;  ///< tokens but the first ones, which prompts give
  int64_t steps = 0;    ///< decode steps, summed over the generations
  std::vector<std::vector<int32_t>> ids;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string question(const std::string& text) {
  return "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
}

std::vector<Set> read_sets(const Options& options, const text::Tokenizer& tokenizer) {
  std::vector<Set> sets = {{"questions", {}}, {"documents", {}}, {"edits", {}}, {"copies", {}}};
  const auto lines = [&](const char* name, auto use) {
    std::ifstream file(options.evaluation + "/" + name);
    for (std::string line; std::getline(file, line);) use(nlohmann::json::parse(line));
  };
  const auto add = [&](Set& set, const std::string& text) {
    if (set.prompts.size() < options.prompts) set.prompts.push_back(tokenizer.encode(text, true));
  };
  lines("questions.jsonl", [&](const nlohmann::json& row) {
    add(sets[0], question(row["question"].get<std::string>()));
  });
  lines("edits.jsonl", [&](const nlohmann::json& row) {
    add(sets[2],
        question(row["instruction"].get<std::string>() + "\n\n" + row["text"].get<std::string>()));
    // The shipped model does not follow this instruction, but it continues a copy that has begun.
    auto copy = tokenizer.encode(row["text"].get<std::string>() + "\n\n", false);
    auto changed = tokenizer.encode(row["answer"].get<std::string>(), false);
    changed.resize(changed.size() / 4);
    copy.insert(copy.end(), changed.begin(), changed.end());
    if (sets[3].prompts.size() < options.prompts) sets[3].prompts.push_back(std::move(copy));
  });
  const std::string documents = read_text(options.evaluation + "/heldout.docs");
  for (size_t at = 0; at < documents.size();) {
    const size_t end = std::min(documents.find('\0', at), documents.size());
    auto tokens = tokenizer.encode(documents.substr(at, std::min<size_t>(end - at, 4000)), false);
    if (tokens.size() > 300 && sets[1].prompts.size() < options.prompts) {
      tokens.resize(256);
      sets[1].prompts.push_back(std::move(tokens));
    }
    at = end + 1;
  }
  return sets;
}

/// Lines with a "prompt" in each file, a set each.
std::vector<Set> read_texts(const Options& options, const text::Tokenizer& tokenizer) {
  constexpr size_t kMostTokens = 160;
  std::vector<Set> sets;
  for (const std::string& path : options.texts) {
    Set& set = sets.emplace_back(std::filesystem::path(path).stem().string());
    std::ifstream file(path);
    for (std::string line; std::getline(file, line) && set.prompts.size() < options.prompts;) {
      const auto row = nlohmann::json::parse(line);
      auto tokens = tokenizer.encode(row["prompt"].get<std::string>(), true);
      tokens.resize(std::min(tokens.size(), kMostTokens));
      set.prompts.push_back(std::move(tokens));
    }
    if (set.prompts.empty()) {
      std::fprintf(stderr, "no prompts in %s\n", path.c_str());
      std::exit(2);
    }
  }
  return sets;
}

/// The engine of a mode, and the machine that it seems to run on.
struct Rig {
  SimulatedClock clock;
  std::optional<SimulatedModel> model;
  std::optional<SimulatedModel> draft;
  std::unique_ptr<engine::Engine> engine;

  double now(const Options& options) const {
    return options.times ? clock.seconds() : measured_now(options);
  }
};

std::unique_ptr<Rig> make_rig(const Options& options, model::Model& model, model::Model* draft,
                              const text::Tokenizer& tokenizer) {
  static const std::vector<const engine::DrafterType*> likeliest = likeliest_drafters();
  auto rig = std::make_unique<Rig>();
  engine::EngineOptions wanted = {.draft_model = draft};
  if (options.likeliest_drafts) wanted.drafters = likeliest;
  if (!options.times) {
    rig->engine = engine::Engine::create(model, tokenizer, wanted).value();
    return rig;
  }
  rig->model.emplace(model, *options.times, rig->clock);
  if (draft != nullptr) {
    wanted.draft_model = &rig->draft.emplace(*draft, *options.times, rig->clock);
  }
  wanted.now = [&clock = rig->clock] { return clock.now(); };
  rig->engine = engine::Engine::create(*rig->model, tokenizer, wanted).value();
  return rig;
}

/// `first`: number of the first prompt in its set.
RunResult run(const Rig& rig, std::span<const std::vector<int32_t>> prompts, size_t first,
              Speculation mode, const Options& options, float temperature) {
  engine::Engine& engine = *rig.engine;
  RunResult result;
  result.ids.resize(prompts.size());
  const double steps = engine.counters().batch.sum;
  const double begun = rig.now(options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    engine::Request request;
    request.prompt = prompts[i];
    request.max_tokens = options.tokens;
    request.speculation = mode;
    request.speculation.all = options.verify_all;
    request.sampling.temperature = temperature;
    request.sampling.top_p = temperature > 0 ? 0.95F : 1.0F;
    request.sampling.top_k = options.top_k;
    request.sampling.seed = static_cast<uint64_t>(options.seed) + first + i;
    request.on_finish = [&result, i](const engine::Outcome& o) {
      for (const auto& t : o.tokens) result.ids[i].push_back(t.id);
      result.tokens += static_cast<int64_t>(o.tokens.size());
      result.decoded += static_cast<int64_t>(o.tokens.size()) - 1;
      result.drafted += o.speculation.drafted();
      result.accepted += o.speculation.accepted();
      result.asked += o.speculation.requested;
    };
    if (!engine.submit(std::move(request)).ok()) std::exit(2);
  }
  while (engine.step()) {
  }
  result.seconds = rig.now(options) - begun;
  result.steps = static_cast<int64_t>(engine.counters().batch.sum - steps);
  return result;
}

/// False if a text differs. `draft`: nullptr: none.
bool measure(const Set& set, float temperature, const Options& options, model::Model& model,
             model::Model* draft, const text::Tokenizer& tokenizer) {
  const std::vector<Mode>& modes = options.modes;
  std::vector<std::unique_ptr<Rig>> rigs(modes.size());
  for (auto& rig : rigs) rig = make_rig(options, model, draft, tokenizer);
  std::vector<RunResult> sums(modes.size());
  std::vector<std::vector<double>> ratios(modes.size());
  size_t turn = 0;
  for (size_t first = 0; first < set.prompts.size(); first += options.sequences) {
    const auto prompts =
        std::span(set.prompts)
            .subspan(first, std::min(options.sequences, set.prompts.size() - first));
    std::vector<RunResult> best(modes.size());
    for (int r = 0; r < options.runs; ++r, ++turn) {
      for (size_t i = 0; i < modes.size(); ++i) {
        const size_t m = (turn + i) % modes.size();
        RunResult result = run(*rigs[m], prompts, first, modes[m].second, options, temperature);
        if (r == 0 || result.seconds < best[m].seconds) best[m] = std::move(result);
      }
    }
    for (size_t m = 0; m < modes.size(); ++m) {
      if (best[m].ids != best[0].ids) {
        std::fprintf(stderr, "%s, prompt %zu: the text of %s differs\n", set.name.c_str(), first,
                     modes[m].first.c_str());
        return false;
      }
      sums[m].seconds += best[m].seconds;
      sums[m].tokens += best[m].tokens;
      sums[m].drafted += best[m].drafted;
      sums[m].accepted += best[m].accepted;
      sums[m].asked += best[m].asked;
      sums[m].decoded += best[m].decoded;
      sums[m].steps += best[m].steps;
      ratios[m].push_back(best[0].seconds / best[m].seconds);
    }
  }
  for (size_t m = 0; m < modes.size(); ++m) {
    const RunResult& s = sums[m];
    std::ranges::sort(ratios[m]);
    std::printf(
        "%-10s %-8s %-6s %8lld %9.0f %8.3f %8.3f %8.3f %8.3f %9.3f %8.1f %8.1f\n", set.name.c_str(),
        temperature > 0 ? "sampled" : "greedy", modes[m].first.c_str(),
        static_cast<long long>(s.tokens), static_cast<double>(s.tokens) / s.seconds,
        sums[0].seconds / s.seconds, ratios[m][ratios[m].size() / 2],
        ratios[m][ratios[m].size() / 20],
        s.drafted > 0 ? static_cast<double>(s.accepted) / static_cast<double>(s.drafted) : 0.0,
        static_cast<double>(s.decoded) / static_cast<double>(s.steps),
        100.0 * static_cast<double>(s.drafted - s.accepted) / static_cast<double>(s.tokens),
        100.0 * static_cast<double>(s.asked) / static_cast<double>(s.tokens));
    std::fflush(stdout);
  }
  return true;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Prints the microseconds of a verification of n rows, with and without the update of the MTP
/// head's KV cache, and of a chain of n drafts.
void print_curve(const Options& options, model::Model& model, const std::vector<int32_t>& prompt) {
  auto sequence = model.states().create_sequence();
  model::SequenceRows start;
  start.state = sequence.get();
  start.tokens = prompt;
  start.revocable = false;
  start.logits_of = {0};
  if (!model.forward({{start}, true}).ok()) std::exit(2);
  std::printf("%6s %10s %10s %10s\n", "rows", "step", "with MTP", "drafts");
  for (const int32_t n : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
    std::array<std::vector<double>, 3> took;
    for (int r = 0; r < 15; ++r) {
      for (const bool update_draft_kv : {false, true}) {
        model::SequenceRows rows;
        rows.state = sequence.get();
        rows.revocable = true;
        for (int32_t i = 0; i < n; ++i) {
          rows.tokens.push_back(prompt[static_cast<size_t>(r + 7 * i) % prompt.size()]);
          rows.logits_of.push_back(i);
        }
        const double begun = measured_now(options);
        if (!model.forward({{rows}, update_draft_kv}).ok()) std::exit(2);
        (void)sequence->commit(1);
        took[update_draft_kv ? 1 : 0].push_back(measured_now(options) - begun);
      }
      const model::DraftStart from = {sequence.get(), prompt[static_cast<size_t>(r)]};
      const double begun = measured_now(options);
      const Status drafted = model.draft({&from, 1}, n, [&](size_t, std::span<const float> logits) {
        return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
      });
      if (drafted.ok()) took[2].push_back(measured_now(options) - begun);
    }
    std::printf("%6d", n);
    for (const auto& t : took) std::printf(" %10.1f", t.empty() ? 0.0 : 1e6 * median(t));
    std::printf("\n");
  }
}

int bench(const Options& options) {
  auto file = gguf::Reader::open(options.model);
  if (!file.ok()) {
    std::fprintf(stderr, "%s\n", file.error().message.c_str());
    return 2;
  }
  ThreadPool pool(options.threads);
  std::unique_ptr<kernels::cuda::Device> gpu;
  if (options.on_gpu) gpu = kernels::cuda::open_cuda_device(0).value();
  const auto make_ops = [&] {
    return gpu ? kernels::cuda::make_cuda_ops(*gpu, pool).value() : kernels::make_cpu_ops(pool);
  };
  const auto ops = make_ops();
  model::ModelOptions wanted;
  wanted.max_tokens = 64 * 1024;
  wanted.max_states = 256;
  wanted.drafts = true;
  wanted.draft_tokens = options.draft_tokens;
  const auto model = model::load_model(**file, *ops, wanted);
  auto vocabulary = model::vocabulary_from_gguf(**file);
  if (!model.ok() || !vocabulary.ok()) {
    std::fprintf(stderr, "%s\n", (model.ok() ? vocabulary.error() : model.error()).message.c_str());
    return 2;
  }
  const auto tokenizer = text::Tokenizer::create(std::move(vocabulary).value()).value();
  std::unique_ptr<gguf::Reader> draft_file;
  std::unique_ptr<kernels::Ops> draft_ops;
  std::unique_ptr<model::Model> draft;
  if (!options.draft_model.empty()) {
    draft_file = gguf::Reader::open(options.draft_model).value();
    draft_ops = make_ops();
    draft = model::load_block_drafter(*draft_file, **file, *draft_ops, wanted).value();
  }
  const std::vector<Set> sets =
      options.texts.empty() ? read_sets(options, *tokenizer) : read_texts(options, *tokenizer);
  if (!options.verify_all && !options.times) {
    print_curve(options, **model, sets[options.texts.empty() ? 1 : 0].prompts.front());
  }
  std::printf("%-10s %-8s %-6s %8s %9s %8s %8s %8s %8s %9s %8s %8s\n", "prompts", "tokens", "mode",
              "tokens", "tok/s", "x off", "median", "5th pct", "accepted", "tok/step", "rejected",
              "drafted");
  for (const Set& set : sets) {
    for (const float temperature : {0.0F, options.temperature}) {
      if (!measure(set, temperature, options, **model, draft.get(), *tokenizer)) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace chimere

int main(int argc, char** argv) {
  chimere::Options options;
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr,
                 "usage: speculation_bench MODEL EVALUATION [--prompts N] [--tokens N] [--runs N] "
                 "[--sequences N] [--threads N] [--draft-tokens N] [--modes LIST] "
                 "[--draft-model FILE] [--texts FILE,...] [--temperature T] [--top-k N] "
                 "[--seed N] [--verify all] [--drafts likeliest] [--backend cpu|cuda] "
                 "[--times FILE]\n");
    return 2;
  }
  options.model = argv[1];
  options.evaluation = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--modes") {
      const std::string wanted = std::string(",off,") + argv[i + 1] + ",";
      std::erase_if(options.modes, [&](const auto& mode) {
        return wanted.find("," + mode.first + ",") == std::string::npos;
      });
      continue;
    }
    if (name == "--draft-model") {
      options.draft_model = argv[i + 1];
      continue;
    }
    if (name == "--texts") {
      std::istringstream list(argv[i + 1]);
      for (std::string path; std::getline(list, path, ',');) options.texts.push_back(path);
      continue;
    }
    if (name == "--times") {
      try {
        options.times = chimere::StepTimes::read(argv[i + 1]);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", argv[i + 1], e.what());
        return 2;
      }
      continue;
    }
    if (name == "--temperature") {
      options.temperature = std::strtof(argv[i + 1], nullptr);
      continue;
    }
    if (name == "--drafts" && argv[i + 1] == std::string("likeliest")) {
      options.likeliest_drafts = true;
      continue;
    }
    if (name == "--backend" &&
        (argv[i + 1] == std::string("cpu") || argv[i + 1] == std::string("cuda"))) {
      options.on_gpu = argv[i + 1] == std::string("cuda");
      continue;
    }
    if (name == "--verify" && argv[i + 1] == std::string("all")) {
      options.verify_all = true;
      continue;
    }
    const int value = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--prompts") {
      options.prompts = static_cast<size_t>(value);
    } else if (name == "--tokens") {
      options.tokens = value;
    } else if (name == "--runs") {
      options.runs = value;
    } else if (name == "--sequences") {
      options.sequences = static_cast<size_t>(value);
    } else if (name == "--threads") {
      options.threads = value;
    } else if (name == "--draft-tokens") {
      options.draft_tokens = value;
    } else if (name == "--seed") {
      options.seed = value;
    } else if (name == "--top-k") {
      options.top_k = value;
    } else {
      std::fprintf(stderr, "unknown: %s\n", name.c_str());
      return 2;
    }
  }
  if (options.draft_model.empty()) {
    std::erase_if(options.modes, [](const auto& mode) { return mode.first == "dflash"; });
  }
  if (options.times && options.on_gpu) {
    std::fprintf(stderr, "--times is for --backend cpu\n");
    return 2;
  }
  if (options.verify_all) {
    std::erase_if(options.modes, [](const auto& mode) { return mode.first == "auto"; });
  }
  return chimere::bench(options);
}
