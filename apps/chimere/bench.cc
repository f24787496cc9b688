// chimere bench: prefill and decode throughput, the bytes that each test must move, and the memory
// bandwidth measured beside it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bandwidth.h"
#include "base/stopwatch.h"
#include "bench_report.h"
#include "bytes_model.h"
#include "command.h"
#include "loading.h"
#include "model/chunking.h"
#include "runtime/loaded_model.h"
#include "runtime/request.h"
#include "sampling/sampler.h"

namespace chimere::app {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
/// Most rows of a generation in a step: no step verifies more drafts at once.
constexpr int32_t kMaxRows = 16;

struct BenchFlags {
  std::string prompts = "512";
  int32_t decode = 128;
  std::string batches = "1";
  std::string rows = "1";
  int32_t depth = 0;
  int32_t runs = 3;
  int32_t step_rows = 0;
  bool sample = false;
  bool no_overlap = false;
  std::string accept;
};

kernels::cuda::StreamCounts operator-(const kernels::cuda::StreamCounts& a,
                                      const kernels::cuda::StreamCounts& b) {
  return {a.launches - b.launches, a.graph_launches - b.graph_launches,
          a.graph_kernels - b.graph_kernels, a.synchronisations - b.synchronisations};
}

kernels::ExpertUse operator-(const kernels::ExpertUse& a, const kernels::ExpertUse& b) {
  return {a.rows - b.rows, a.experts - b.experts};
}

class Bench {
 public:
  /// `runs`: measured repetitions of each test. `sampling`: how generations choose their tokens;
  /// absent: tokens are random. `overlap`: launch a step before the tokens of the previous one are
  /// known, where the model supports it.
  Bench(const runtime::LoadedModel& loaded, int32_t runs,
        std::optional<sampling::SamplingParams> sampling, bool overlap)
      : loaded_(loaded),
        bytes_(loaded),
        runs_(runs),
        sampling_(std::move(sampling)),
        overlap_(overlap) {
    // The top-k logits that the engine would request with the same parameters.
    if (sampling_ && loaded_.model->logits_on_gpu()) {
      const auto needed = sampling::Sampler(*sampling_).needed(kernels::kMaxTopLogits);
      const bool cut = sampling_->top_k > 0 || sampling_->temperature == 0;
      if (cut && !needed.sums && sampling_->logit_bias.empty()) top_ = needed.largest;
      if (top_ >= loaded_.tokenizer->n_tokens()) top_ = 0;
    }
  }

  /// Median of `runs` prompts of n random tokens, after one warm-up run.
  Result<Measured> prompt(int32_t n) {
    return repeat([&]() -> Result<Measured> {
      const auto sequence = loaded_.model->states().create_sequence();
      Measured sum;
      const Stopwatch watch;
      CHIMERE_CHECK_OK(read(*sequence, n, sum));
      sum.seconds = watch.seconds();
      return sum;
    });
  }

  /// Median of `runs` times n decode steps of `batch` generations, each after a prompt of `depth`
  /// tokens and with `rows` rows a step. More than one row is a verification that accepts all
  /// drafts.
  Result<Measured> decode(int32_t n, int32_t batch, int32_t rows, int32_t depth) {
    return repeat([&]() -> Result<Measured> {
      std::vector<Sequence> generations(static_cast<size_t>(batch));
      Measured prompts;
      for (Sequence& generation : generations) {
        generation.state = loaded_.model->states().create_sequence();
        if (sampling_) generation.sampler.emplace(*sampling_);
        CHIMERE_CHECK_OK(read(*generation.state, depth, prompts));
      }
      Measured sum;
      const bool overlapped = runs_overlapped(batch, rows);
      const auto sample_last = [&](int32_t i) -> Status {
        CHIMERE_TRY(const model::StepResult result, loaded_.model->wait());
        return sample_rows(result, rows, depth + i, generations);
      };
      const Stopwatch watch;
      for (int32_t i = 0; i < n; ++i) {
        model::StepPlan plan;
        for (const Sequence& generation : generations) {
          model::SequenceRows& of_sequence = plan.sequences.emplace_back();
          of_sequence.state = generation.state.get();
          of_sequence.adapters = adapters_of(plan.sequences.size() - 1);
          of_sequence.tokens = random_tokens(rows);
          if (generation.next >= 0) of_sequence.tokens[0] = generation.next;
          for (int32_t r = 0; r < rows; ++r) of_sequence.logits_of.push_back(r);
          of_sequence.top = top_;
          if (!overlapped) continue;
          of_sequence.choice = generation.sampler->choice_on_gpu(static_cast<uint64_t>(depth) +
                                                                 static_cast<uint64_t>(i));
          of_sequence.async_token = i > 0;
        }
        ++steps_;
        sum.bytes += bytes_.decode_step(depth + i * rows, batch);
        if (overlapped) {
          CHIMERE_CHECK_OK(loaded_.model->launch(plan));
          if (i > 0) CHIMERE_CHECK_OK(sample_last(i - 1));
          continue;
        }
        CHIMERE_TRY(const model::StepResult result, loaded_.model->forward(plan));
        if (sampling_) CHIMERE_CHECK_OK(sample_rows(result, rows, depth + i * rows, generations));
      }
      if (overlapped) CHIMERE_CHECK_OK(sample_last(n - 1));
      sum.seconds = watch.seconds();
      return sum;
    });
  }

  /// Seconds of a step of `batch` generations with 1, 2, .. kMaxRows rows each; all rows but the
  /// first are wrong drafts.
  Result<std::vector<double>> step_times(int32_t batch, int32_t depth) {
    constexpr int32_t kSteps = 8;
    std::vector<double> times;
    for (int32_t rows = 1; rows <= kMaxRows; ++rows) {
      CHIMERE_TRY(const Measured m,
                  repeat([&] { return decode_known(kSteps, batch, depth, rows - 1, 0.0); }));
      times.push_back(m.seconds / kSteps);
    }
    return times;
  }

  /// Generations of n known tokens without drafts.
  Result<Measured> without_drafts(int32_t n, int32_t batch, int32_t depth) {
    return repeat([&] { return decode_known(n, batch, depth, 0, 0.0); });
  }

  /// Generations of n known tokens with simulated drafts: each is right with probability
  /// `acceptance` as long as those before it were. The number of drafts a step is the best one by
  /// `step_times`. `off`: the same generations without drafts.
  Result<Measured> drafted(int32_t n, int32_t batch, int32_t depth, double acceptance,
                           const std::vector<double>& step_times, const Measured& off) {
    DraftedGenerations generations;
    generations.acceptance = acceptance;
    double tokens = 0;
    double chain = 1;
    double best = 0;
    for (int32_t drafts = 0; drafts < kMaxRows; ++drafts, chain *= acceptance) {
      tokens += chain;
      const double rate = tokens / step_times[static_cast<size_t>(drafts)];
      if (rate > best) generations.drafts_per_step = drafts;
      best = std::max(best, rate);
    }
    CHIMERE_TRY(Measured m, repeat([&] {
                  return decode_known(n, batch, depth, generations.drafts_per_step, acceptance);
                }));
    generations.tokens_per_step = m.drafted->tokens_per_step;
    generations.speedup = off.seconds / m.seconds;
    m.drafted = generations;
    return m;
  }

 private:
  struct Sequence {
    std::unique_ptr<state::SequenceState> state;
    std::optional<sampling::Sampler> sampler;
    int32_t next = -1;                         ///< the last sampled token; -1: none yet
    std::vector<sampling::Candidate> largest;  ///< reused between steps
  };

  /// A generation whose tokens are known.
  struct KnownContinuation {
    std::unique_ptr<state::SequenceState> state;
    std::vector<int32_t> tokens;
    int32_t at = 0;        ///< tokens so far
    int32_t accepted = 0;  ///< drafts of this step
  };

  /// One run of `batch` such generations with `drafts` drafts a step; the probability of a right
  /// draft after a right one is `acceptance`.
  Result<Measured> decode_known(int32_t n, int32_t batch, int32_t depth, int32_t drafts,
                                double acceptance) {
    std::vector<KnownContinuation> generations(static_cast<size_t>(batch));
    Measured prompts;
    for (KnownContinuation& generation : generations) {
      generation.state = loaded_.model->states().create_sequence();
      generation.tokens = random_tokens(n + drafts + 1);
      CHIMERE_CHECK_OK(read(*generation.state, depth, prompts));
    }
    Measured sum;
    int64_t decode_steps = 0;
    std::uniform_real_distribution<double> uniform;
    const Stopwatch watch;
    while (true) {
      model::StepPlan plan;
      for (KnownContinuation& generation : generations) {
        if (generation.at >= n) continue;
        model::SequenceRows& rows = plan.sequences.emplace_back();
        rows.state = generation.state.get();
        rows.adapters = adapters_of(static_cast<size_t>(&generation - generations.data()));
        rows.revocable = drafts > 0;
        rows.top = 1;
        generation.accepted = 0;
        for (int32_t i = 0; i <= drafts; ++i) {
          const bool correct =
              i == 0 || (generation.accepted == i - 1 && uniform(random_) < acceptance);
          if (i > 0 && correct) generation.accepted = i;
          const int32_t token =
              generation.tokens[static_cast<size_t>(generation.at) + static_cast<size_t>(i)];
          rows.tokens.push_back(correct ? token : (token + 1) % loaded_.model->n_vocab());
          rows.logits_of.push_back(i);
        }
      }
      if (plan.sequences.empty()) break;
      CHIMERE_CHECK_OK(forward(plan));
      sum.bytes += bytes_.decode_step(depth + generations.front().at,
                                      static_cast<int32_t>(plan.sequences.size()));
      for (KnownContinuation& generation : generations) {
        if (generation.at >= n) continue;
        if (drafts > 0) CHIMERE_CHECK_OK(generation.state->commit(1 + generation.accepted));
        generation.at += 1 + generation.accepted;
        ++decode_steps;
      }
    }
    sum.seconds = watch.seconds();
    double tokens = 0;
    for (const KnownContinuation& generation : generations) tokens += generation.at;
    // The last step may accept more tokens than the test asks for.
    sum.seconds *= static_cast<double>(n) * batch / tokens;
    sum.drafted.emplace();
    sum.drafted->tokens_per_step = tokens / static_cast<double>(decode_steps);
    return sum;
  }

  /// Whether steps are launched before the tokens of the previous ones are known (overlap
  /// scheduling, by the engine's rules).
  bool runs_overlapped(int32_t batch, int32_t rows) const {
    return sampling_ && overlap_ && top_ > 0 && rows == 1 && batch <= kernels::kMaxChoices &&
           loaded_.model->supports_overlap() && sampling::Sampler(*sampling_).choice_on_gpu(0);
  }

  /// Samples a token for each row; that of a generation's last row is its next one.
  Status sample_rows(const model::StepResult& result, int32_t rows, int64_t position,
                     std::vector<Sequence>& generations) {
    std::vector<Status> sampled(generations.size());
    const auto sample_one = [&](int64_t begin, int64_t end, int /*worker*/) {
      for (int64_t i = begin; i < end; ++i) {
        Sequence& generation = generations[static_cast<size_t>(i)];
        for (int32_t r = 0; r < rows; ++r) {
          const auto token = choose(result, i * rows + r, position + r, generation);
          if (token.ok()) {
            generation.next = token->id;
          } else {
            sampled[static_cast<size_t>(i)] = token.error();
          }
        }
      }
    };
    loaded_.pool->parallel_for(static_cast<int64_t>(generations.size()), 1, sample_one);
    for (const Status& status : sampled) CHIMERE_CHECK_OK(status);
    return {};
  }

  /// Samples from one row's logits.
  Result<sampling::Sampled> choose(const model::StepResult& result, int64_t row, int64_t position,
                                   Sequence& generation) const {
    const auto place = static_cast<uint64_t>(position);
    if (top_ == 0) {
      const ConstMatrixView& logits = result.logits;
      return generation.sampler->sample({logits.row(row), static_cast<size_t>(logits.cols)}, {},
                                        place);
    }
    generation.largest.clear();
    for (const kernels::TopLogit& t : result.top.row(row).first(static_cast<size_t>(top_))) {
      generation.largest.push_back({t.value, t.id});
    }
    CHIMERE_TRY(std::optional<sampling::Sampled> sampled,
                generation.sampler->sample({.largest = generation.largest}, {}, place));
    if (!sampled) return unsupported("bench --sample supports no other truncation before top-k");
    return *std::move(sampled);
  }

  /// Sequence i uses the adapter of number i, modulo their number; none without --lora.
  std::vector<kernels::AdapterUse> adapters_of(size_t i) const {
    if (adapters_.empty()) return {};
    const engine::LoadedAdapter& a = adapters_[i % adapters_.size()];
    return {{a.number, a.scale}};
  }

  /// Prefills n random tokens and adds the bytes to `sum`.
  Status read(state::SequenceState& sequence, int32_t n, Measured& sum) {
    const std::vector<int32_t> tokens = random_tokens(n);
    for (int32_t at = 0; at < n;) {
      model::StepPlan plan;
      model::SequenceRows& rows = plan.sequences.emplace_back();
      rows.state = &sequence;
      rows.adapters = adapters_of(0);
      rows.row_class = model::RowClass::kPrefill;
      const int32_t size = std::min<int32_t>(loaded_.step_rows, n - at);
      rows.tokens.assign(tokens.begin() + at, tokens.begin() + at + size);
      rows.chunks = model::chunk_sizes(rows.tokens, {});
      if (at + size == n) rows.logits_of = {size - 1};
      CHIMERE_CHECK_OK(forward(plan));
      sum.bytes += bytes_.prompt_step(at, size);
      at += size;
    }
    return {};
  }

  Status forward(const model::StepPlan& plan) {
    ++steps_;
    const auto result = loaded_.model->forward(plan);
    return result.ok() ? Status() : Status(result.error());
  }

  std::vector<int32_t> random_tokens(int32_t n) {
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t& t : tokens)
      t = static_cast<int32_t>(random_() % static_cast<uint64_t>(loaded_.model->n_vocab()));
    return tokens;
  }

  kernels::cuda::StreamCounts counts() const {
    return loaded_.gpu != nullptr ? loaded_.gpu->stream().counts() : kernels::cuda::StreamCounts();
  }

  template <typename Run>
  Result<Measured> repeat(const Run& run) {
    std::vector<Measured> all;
    CHIMERE_TRY(const kernels::ExpertUse used_before, loaded_.model->expert_use());
    for (int32_t r = 0; r <= runs_; ++r) {
      const kernels::cuda::StreamCounts before = counts();
      steps_ = 0;
      CHIMERE_TRY(Measured m, run());
      m.steps = steps_;
      m.asked = counts() - before;
      if (r > 0) {
        all.push_back(m);
        continue;
      }
      // The warm-up run yields the experts per token that the bytes of the others depend on.
      CHIMERE_TRY(const kernels::ExpertUse used, loaded_.model->expert_use());
      if (used.rows > used_before.rows)
        bytes_.use_experts(runtime::mean_experts(used - used_before));
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end(),
                     [](const Measured& a, const Measured& b) { return a.seconds < b.seconds; });
    CHIMERE_TRY(const kernels::ExpertUse used, loaded_.model->expert_use());
    middle->used = used - used_before;
    return *middle;
  }

  const runtime::LoadedModel& loaded_;
  const std::vector<engine::LoadedAdapter> adapters_ = loaded_.adapters->list();
  BytesModel bytes_;
  int32_t runs_;
  std::optional<sampling::SamplingParams> sampling_;
  bool overlap_;
  int32_t top_ = 0;  ///< top-k logits to sample from, on a GPU; 0: all logits
  int64_t steps_ = 0;
  std::mt19937_64 random_;  // fixed seed: all runs use the same tokens
};

/// Comma-separated numbers from 0 to 1; an empty text has none.
Result<std::vector<double>> parse_fractions(const std::string& text) {
  std::vector<double> fractions;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    double fraction = -1;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, fraction);
    if (error != std::errc() || rest != text.data() + end || std::isnan(fraction) || fraction < 0 ||
        fraction > 1) {
      return invalid_argument(
          fmt::format("'{}' is not a comma-separated list of numbers from 0 to 1", text));
    }
    fractions.push_back(fraction);
    at = end + 1;
  }
  return fractions;
}

/// `tokens` rounded up to whole KV pages.
int64_t in_pages(int64_t tokens) {
  constexpr int64_t kPage = kernels::kKvPageTokens;
  return (tokens + kPage - 1) / kPage * kPage;
}

Status bench(const CommandLine& line, const BenchFlags& flags) {
  CHIMERE_TRY(const auto prompts, parse_numbers(flags.prompts, 0, kMost, "prompt length"));
  CHIMERE_TRY(const auto batches,
              parse_numbers(flags.batches, 1, runtime::LoadedModel::kHostStepRows, "batch"));
  CHIMERE_TRY(const auto rows, parse_numbers(flags.rows, 1, kMaxRows, "number of rows"));
  CHIMERE_TRY(const auto acceptances, parse_fractions(flags.accept));
  const int32_t largest = *std::ranges::max_element(batches);
  const int64_t prompt = *std::ranges::max_element(prompts);
  const int64_t rows_of_generation =
      std::max(int64_t{flags.decode} * *std::ranges::max_element(rows),
               acceptances.empty() ? int64_t{0} : flags.decode + 2 * kMaxRows);
  const int64_t generation = flags.decode == 0 ? 0 : flags.depth + rows_of_generation;
  const int64_t longest = std::max<int64_t>({prompt, generation, 1});
  // One prompt, or all generations of the largest batch.
  CHIMERE_TRY(const runtime::LoadedModel loaded,
              load(line.settings,
                   {.contexts = largest,
                    .default_context = longest,
                    .default_tokens = std::max({in_pages(prompt), largest * in_pages(generation),
                                                int64_t{kernels::kKvPageTokens}}),
                    .checkpoints = acceptances.empty() ? 0 : int64_t{largest} * kMaxRows,
                    .step_rows = flags.step_rows}));
  if (longest > loaded.context) {
    return invalid_argument(fmt::format("A test of {} tokens does not fit into the context of {}.",
                                        longest, loaded.context));
  }
  std::optional<sampling::SamplingParams> sampling;
  if (flags.sample) {
    CHIMERE_TRY(const engine::Request request,
                runtime::RequestFactory(*loaded.tokenizer, {}).make(line.settings));
    sampling = request.sampling;
    sampling->seed = 0;
  }
  Bench bench(loaded, flags.runs, std::move(sampling), !flags.no_overlap);
  Bandwidth bandwidth;
  if (loaded.gpu != nullptr) {
    CHIMERE_TRY(bandwidth, measure_bandwidth(*loaded.gpu));
  } else {
    bandwidth = measure_bandwidth(*loaded.pool);
  }
  BenchReport report(line.json, loaded, bandwidth);
  for (const int32_t n : prompts) {
    if (n == 0) continue;
    CHIMERE_TRY(const Measured m, bench.prompt(n));
    report.add(fmt::format("pp{}", n), 1, n, m);
  }
  const std::string suffix = flags.depth == 0 ? "" : fmt::format("@{}", flags.depth);
  for (const int32_t batch : batches) {
    for (const int32_t n : rows) {
      if (flags.decode == 0) continue;
      CHIMERE_TRY(const Measured m, bench.decode(flags.decode, batch, n, flags.depth));
      const std::string each = n == 1 ? "" : fmt::format("x{}", n);
      const char* const test = flags.sample ? "tgd" : "tg";
      report.add(fmt::format("{}{}{}{}", test, flags.decode, each, suffix), batch,
                 static_cast<double>(flags.decode) * batch * n, m);
    }
    if (flags.decode == 0 || acceptances.empty()) continue;
    CHIMERE_TRY(const std::vector<double> times, bench.step_times(batch, flags.depth));
    CHIMERE_TRY(const Measured off, bench.without_drafts(flags.decode, batch, flags.depth));
    for (const double acceptance : acceptances) {
      CHIMERE_TRY(const Measured m,
                  bench.drafted(flags.decode, batch, flags.depth, acceptance, times, off));
      report.add(fmt::format("tg{}d{}{}", flags.decode, acceptance, suffix), batch,
                 static_cast<double>(flags.decode) * batch, m);
    }
  }
  report.finish();
  return {};
}

}  // namespace

void declare_bench(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<BenchFlags>();
  Command command = add_command(
      app, line, "bench",
      "Measures how fast prompts are read and answers written; without --ctx the context is as "
      "long as the tests need",
      [&line, flags] { return bench(line, *flags); });
  command.option("-p,--prompt", flags->prompts, "Prompt lengths in tokens, like 512,4096; 0: none")
      .check(number_list(0, kMost, "prompt length"))
      .show_default();
  command
      .option("-n,--decode", flags->decode,
              "Decode steps of a generation, --rows tokens each; 0: none")
      .range(0, 1 << 20)
      .show_default();
  command.option("-b,--batch", flags->batches, "Generations in a batch, like 1,2,4,8")
      .check(number_list(1, runtime::LoadedModel::kHostStepRows, "batch"))
      .show_default();
  command
      .option("--step-rows", flags->step_rows,
              "Prefill rows in one step; 0: as many as suit the back end")
      .one_of({"0", "512", "1024", "2048", "4096", "8192"})
      .show_default();
  command
      .option("--rows", flags->rows,
              "Rows of a generation in each step, as in draft verification, like 1,4")
      .check(number_list(1, kMaxRows, "number of rows"))
      .show_default();
  command.option("-d,--depth", flags->depth, "Tokens in the context before decoding starts")
      .range(0, 1 << 24)
      .show_default();
  command.flag("--no-overlap", flags->no_overlap,
               "With --sample, on a GPU: launch no step before the tokens of the previous step are "
               "known");
  command.flag("--sample", flags->sample,
               "Sample the tokens of generations as `chimere run` does without flags, instead of "
               "using random tokens (tests named tgd)");
  command
      .option("--accept", flags->accept,
              "Also simulate speculative decoding with these acceptance rates, like 0.6,0.8 (tests "
              "named tgNd0.6): known tokens, greedy sampling, and the number of drafts a step "
              "that the measured step times make best")
      .check([](const std::string& text) {
        const auto fractions = parse_fractions(text);
        return fractions.ok() ? std::string() : fractions.error().message;
      });
  command.option("-r,--runs", flags->runs, "Runs of each test; the median counts")
      .range(1, 1000)
      .show_default();
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kAdapters, SettingGroup::kQuiet});
}

}  // namespace chimere::app
