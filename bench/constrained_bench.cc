// Constrained generation on the CPU, by runs of two variants in turn.
//
//   constrained_bench MODEL [--tokens N] [--runs N] [--threads N]
//
// "cost": the time of generations under a constraint that excludes next to nothing (a regular
// expression, the text beside tool calls) relative to those without one. "calls": the time of
// required calls of tools whose certain text is verified one token a step relative to that of
// several tokens a step. The median ratio of --runs pairs counts. With one thread, the default, its
// CPU time is measured, which other processes hardly disturb. Exits with 1 if a call differs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraints/constraint.h"
#include "constraints/token_trie.h"
#include "constraints/tool_calls.h"
#include "engine/engine.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"
#include "model/vocabulary.h"
#include "text/tokenizer.h"
#include "text/tool_format.h"

namespace chimere {
namespace {

using ConstraintPtr = std::shared_ptr<constraints::Constraint>;

struct Options {
  std::string model;
  int32_t tokens = 128;
  int runs = 9;
  int threads = 1;
};

constexpr std::string_view kWeather = R"({"type": "object", "properties": {
  "location": {"type": "string", "enum": ["Zurich", "Geneva", "Bern"]},
  "temperature_unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
  "number_of_days": {"type": "integer", "minimum": 1, "maximum": 14},
  "include_forecast": {"type": "boolean"}},
  "required": ["location", "temperature_unit", "number_of_days", "include_forecast"],
  "additionalProperties": false})";
constexpr std::string_view kSearch = R"({"type": "object", "properties": {
  "query": {"type": "string", "minLength": 4, "maxLength": 24},
  "max_results": {"type": "integer", "minimum": 1, "maximum": 50},
  "sort_order": {"enum": ["ascending", "descending"]}},
  "required": ["query", "max_results", "sort_order"], "additionalProperties": false})";

double now(const Options& options) {
  timespec t = {};
  clock_gettime(options.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <typename T>
T value_of(Result<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(2);
}

struct RunResult {
  double seconds = 0;  ///< of the steps behind the first one
  int64_t tokens = 0;
  int64_t steps = 0;
  std::vector<std::vector<int32_t>> ids;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        file_(value_of(gguf::Reader::open(options.model))),
        pool_(options.threads),
        ops_(kernels::make_cpu_ops(pool_)),
        model_(value_of(model::load_model(*file_, *ops_, limits()))),
        tokenizer_(
            value_of(text::Tokenizer::create(value_of(model::vocabulary_from_gguf(*file_))))),
        trie_(constraints::TokenTrie::create(*tokenizer_)),
        engine_(value_of(engine::Engine::create(*model_, *tokenizer_, {}))) {}

  void cost(int requests) {
    constraints::ConstraintSpec anything;
    anything.content = constraints::RegexSpec{R"([\s\S]*)"};
    print_cost("regular expression", requests, compile(anything));
    print_cost("text beside calls", requests, compile(calls_spec(Choice::kAuto)));
  }

  /// False if a call differs.
  bool calls(int requests) {
    const ConstraintPtr constraint = compile(calls_spec(Choice::kRequired));
    engine::Speculation one_by_one = engine::Speculation::off();
    one_by_one.certain = false;
    std::vector<double> ratios;
    RunResult first;
    RunResult second;
    for (int r = 0; r < options_.runs; ++r) {
      first = run(requests, constraint, one_by_one, r);
      second = run(requests, constraint, engine::Speculation::off(), r);
      if (first.ids != second.ids) {
        std::fprintf(stderr, "the calls differ\n");
        return false;
      }
      ratios.push_back(first.seconds / second.seconds);
    }
    std::printf("calls  %-20s %6d %10.0f %10.0f %8.3f x  %.2f tokens a step\n", "required",
                requests, rate(first), rate(second), median(ratios),
                static_cast<double>(second.tokens) / static_cast<double>(second.steps) / requests);
    return true;
  }

 private:
  using Choice = constraints::ToolCallsSpec::Choice;

  static model::ModelOptions limits() {
    model::ModelOptions out;
    out.max_tokens = 64 * 1024;
    out.max_states = 256;
    out.max_pending_rows = 1024;
    return out;
  }

  static double rate(const RunResult& r) { return static_cast<double>(r.tokens) / r.seconds; }

  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }

  constraints::ConstraintSpec calls_spec(Choice choice) const {
    constraints::ToolCallsSpec spec;
    spec.tools = {{"get_current_weather", "", std::string(kWeather), true},
                  {"search_documents", "", std::string(kSearch), true}};
    spec.choice = choice;
    spec.parallel = false;
    return value_of(constraints::tool_calls_constraint(text::written_tool_format("<tool_call>"),
                                                       spec, *tokenizer_));
  }

  ConstraintPtr compile(const constraints::ConstraintSpec& spec) const {
    return value_of(constraints::Constraint::compile(spec, trie_));
  }

  RunResult run(int requests, const ConstraintPtr& constraint, engine::Speculation speculation,
                int seed) {
    RunResult result;
    result.ids.resize(static_cast<size_t>(requests));
    for (int i = 0; i < requests; ++i) {
      engine::Request request;
      request.prompt = tokenizer_->encode("Question " + std::to_string(i) + ": what is it?", false);
      request.max_tokens = options_.tokens;
      request.speculation = speculation;
      request.constraint = constraint;
      request.sampling.temperature = 0.7F;
      request.sampling.top_k = 20;
      request.sampling.top_p = 0.95F;
      request.sampling.seed = static_cast<uint64_t>(1000 * seed + i);
      // Generations that a constraint does not end are equally long.
      request.sampling.logit_bias = {{tokenizer_->eos(), -100.0F}};
      request.on_finish = [&result, i](const engine::Outcome& o) {
        for (const auto& t : o.tokens) result.ids[static_cast<size_t>(i)].push_back(t.id);
        result.tokens += static_cast<int64_t>(o.tokens.size());
      };
      if (!engine_->submit(std::move(request)).ok()) std::exit(2);
    }
    (void)engine_->step();  // the prompts
    const int64_t steps = engine_->counters().steps;
    const double begun = now(options_);
    while (engine_->step()) {
    }
    result.seconds = now(options_) - begun;
    result.steps = engine_->counters().steps - steps;
    return result;
  }

  void print_cost(const char* name, int requests, const ConstraintPtr& constraint) {
    std::vector<double> ratios;
    RunResult without;
    RunResult with;
    for (int r = 0; r < options_.runs; ++r) {
      without = run(requests, nullptr, engine::Speculation::off(), r);
      with = run(requests, constraint, engine::Speculation::off(), r);
      ratios.push_back((with.seconds / static_cast<double>(with.tokens)) /
                       (without.seconds / static_cast<double>(without.tokens)));
    }
    std::printf("cost   %-20s %6d %10.0f %10.0f %+8.2f %%\n", name, requests, rate(without),
                rate(with), 100 * (median(ratios) - 1));
  }

  Options options_;
  std::unique_ptr<gguf::Reader> file_;
  ThreadPool pool_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::shared_ptr<const constraints::TokenTrie> trie_;
  std::unique_ptr<engine::Engine> engine_;
};

int bench(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Bench bench(options);
  std::printf("%-6s %-20s %6s %10s %10s %8s\n", "", "constraint", "batch", "tok/s", "tok/s", "");
  bool same = true;
  for (const int requests : {1, 32}) {
    bench.cost(requests);
    same = bench.calls(requests) && same;
  }
  return same ? 0 : 1;
}

}  // namespace
}  // namespace chimere

int main(int argc, char** argv) {
  chimere::Options options;
  bool usage = argc < 2 || argc % 2 != 0;
  if (!usage) options.model = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const int value = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--tokens") {
      options.tokens = value;
    } else if (name == "--runs") {
      options.runs = value;
    } else if (name == "--threads") {
      options.threads = value;
    } else {
      usage = true;
    }
  }
  if (usage) {
    std::fprintf(stderr, "usage: constrained_bench MODEL [--tokens N] [--runs N] [--threads N]\n");
    return 2;
  }
  return chimere::bench(options);
}
