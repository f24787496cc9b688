// Throughput with a standing queue: all requests are submitted at once, so that some wait until the
// last ones run.
//
//   queue_bench MODEL [--running N] [--requests N] [--prompt N] [--tokens N] [--runs N]
//
// Settings come from CHIMERE_* variables, for example the device. Alternates between overlap
// scheduling as it is and none while requests wait or prompts run, and prints the median of each
// with their ratio. Exits with 1 if a text differs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "runtime/load.h"

namespace chimere {
namespace {

struct Options {
  std::string model;
  int32_t running = 8;
  int requests = 48;
  int32_t prompt = 128;
  int32_t tokens = 128;
  int runs = 5;
};

/// A model that launches no step while `busy`.
class Gate : public model::Model {
 public:
  explicit Gate(model::Model& to) : to_(to) {}

  const std::string& architecture() const override { return to_.architecture(); }
  int64_t n_vocab() const override { return to_.n_vocab(); }
  int64_t n_embd() const override { return to_.n_embd(); }
  int64_t context_length() const override { return to_.context_length(); }
  int64_t active_weight_bytes() const override { return to_.active_weight_bytes(); }
  state::StateStore& states() override { return to_.states(); }
  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    return to_.forward(plan);
  }
  bool supports_overlap() const override { return to_.supports_overlap(); }
  Status launch(const model::StepPlan& plan) override {
    const bool prompts = std::ranges::any_of(plan.sequences, [](const model::SequenceRows& rows) {
      return rows.row_class == model::RowClass::kPrefill;
    });
    if (limited && (prompts || engine->counters().waiting > 0)) return unsupported("not now");
    return to_.launch(plan);
  }
  Result<model::StepResult> wait() override { return to_.wait(); }
  Status read_logits(int64_t row, std::span<float> out) override {
    return to_.read_logits(row, out);
  }
  bool can_interleave() const override { return to_.can_interleave(); }
  bool logits_on_gpu() const override { return to_.logits_on_gpu(); }

  bool limited = false;
  engine::Engine* engine = nullptr;

 private:
  model::Model& to_;
};

struct RunResult {
  std::vector<std::vector<int32_t>> ids;
  double seconds = 0;
  int64_t steps = 0;
  int64_t overlapped = 0;
};

RunResult run(engine::Engine& engine, const Options& options, int64_t vocabulary) {
  RunResult result;
  result.ids.resize(static_cast<size_t>(options.requests));
  const engine::EngineCounters before = engine.counters();
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < options.requests; ++i) {
    engine::Request request;
    for (int32_t t = 0; t < options.prompt; ++t) {
      request.prompt.push_back(static_cast<int32_t>((t * 7919 + i * 104729 + 11) % vocabulary));
    }
    request.sampling.temperature = 0.7F;
    request.sampling.top_k = 20;
    request.sampling.top_p = 0.95F;
    request.sampling.seed = static_cast<uint64_t>(i);
    // Lengths from a half to the whole: places become free one by one.
    request.max_tokens = options.tokens / 2 + i * 37 % (options.tokens / 2 + 1);
    request.on_finish = [&ids = result.ids[static_cast<size_t>(i)]](const engine::Outcome& o) {
      for (const auto& t : o.tokens) ids.push_back(t.id);
    };
    if (!engine.submit(std::move(request)).ok()) std::exit(2);
  }
  while (engine.step()) {
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  result.steps = engine.counters().steps - before.steps;
  result.overlapped = engine.counters().overlapped_steps - before.overlapped_steps;
  return result;
}

int measure(const Options& options) {
  Settings settings;
  if (const Status read = settings.load_environment(environ); !read.ok()) {
    std::fprintf(stderr, "%s\n", read.error().message.c_str());
    return 2;
  }
  auto file = gguf::Reader::open(options.model);
  if (!file.ok()) {
    std::fprintf(stderr, "%s\n", file.error().message.c_str());
    return 2;
  }
  runtime::MemoryRequest memory;
  memory.contexts = options.running;
  memory.default_context = options.prompt + options.tokens + 64;
  const runtime::Runtime shared(settings);
  auto loaded = runtime::load(*std::move(file), settings, memory, shared, {});
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.error().message.c_str());
    return 2;
  }
  Gate gate(*loaded->model);
  engine::EngineOptions engine_options;
  engine_options.max_step_rows = loaded->step_rows;
  engine_options.max_running = options.running;
  engine_options.pool = loaded->pool.get();
  auto engine = engine::Engine::create(gate, *loaded->tokenizer, engine_options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    return 2;
  }
  gate.engine = engine->get();
  std::vector<double> speeds[2];
  std::vector<std::vector<int32_t>> ids;
  for (int r = 0; r <= options.runs; ++r) {
    for (const bool limited : {r % 2 == 0, r % 2 != 0}) {
      gate.limited = limited;
      RunResult result = run(**engine, options, gate.n_vocab());
      int64_t tokens = 0;
      for (const auto& text : result.ids) tokens += static_cast<int64_t>(text.size());
      if (!ids.empty() && ids != result.ids) {
        std::fprintf(stderr, "the texts differ\n");
        return 1;
      }
      ids = std::move(result.ids);
      const double speed = static_cast<double>(tokens) / result.seconds;
      if (r > 0) speeds[limited ? 0 : 1].push_back(speed);  // the first round warms up
      std::printf("%-18s %8.1f tok/s, %lld of %lld steps overlapped\n",
                  limited ? "without a queue" : "always", speed,
                  static_cast<long long>(result.overlapped), static_cast<long long>(result.steps));
      std::fflush(stdout);
    }
  }
  for (auto& s : speeds) std::ranges::sort(s);
  const double before = speeds[0][speeds[0].size() / 2];
  const double after = speeds[1][speeds[1].size() / 2];
  std::printf("median %.1f and %.1f tok/s, ratio %.3f\n", before, after, after / before);
  return 0;
}

}  // namespace
}  // namespace chimere

int main(int argc, char** argv) {
  chimere::Options options;
  bool valid = argc >= 2 && argc % 2 == 0;
  if (valid) options.model = argv[1];
  for (int i = 2; valid && i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const int value = std::atoi(argv[i + 1]);
    valid = value > 0;
    if (flag == "--running") {
      options.running = value;
    } else if (flag == "--requests") {
      options.requests = value;
    } else if (flag == "--prompt") {
      options.prompt = value;
    } else if (flag == "--tokens") {
      options.tokens = std::max(2, value);
    } else if (flag == "--runs") {
      options.runs = value;
    } else {
      valid = false;
    }
  }
  if (!valid) {
    std::fprintf(stderr,
                 "queue_bench MODEL [--running N] [--requests N] [--prompt N] [--tokens N] "
                 "[--runs N]\n");
    return 2;
  }
  return chimere::measure(options);
}
