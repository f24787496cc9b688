// chimere bench: speed of prompts and generations, beside the bytes they must move and what memory
// can move.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bandwidth.h"
#include "bench_report.h"
#include "bytes_model.h"
#include "command.h"
#include "loaded_model.h"
#include "model/chunking.h"
#include "request.h"
#include "sampling/sampler.h"
#include "stopwatch.h"

namespace chimere::app {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
/// Most rows of a generation in a step: more drafts are never verified at once.
constexpr int32_t kMaxRows = 16;

struct BenchFlags {
  std::string prompts = "512";
  int32_t decode = 128;
  std::string batches = "1";
  std::string rows = "1";
  int32_t behind = 0;
  int32_t runs = 3;
  int32_t step_rows = 0;
  bool draw = false;
  bool wait = false;
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
  /// `sampling`: how generations choose their tokens; nothing: they are random ones. `wait`: for
  /// the tokens of each step before the next one.
  Bench(const LoadedModel& loaded, int32_t runs, std::optional<sampling::SamplingParams> sampling,
        bool wait)
      : loaded_(loaded), bytes_(loaded), runs_(runs), sampling_(std::move(sampling)), wait_(wait) {
    // As the engine does for requests with the same parameters.
    if (sampling_ && loaded_.model->logits_on_gpu()) {
      const auto needed = sampling::Sampler(*sampling_).needed(kernels::kMaxTopLogits);
      const bool cut = sampling_->top_k > 0 || sampling_->temperature == 0;
      if (cut && !needed.sums && sampling_->logit_bias.empty()) top_ = needed.largest;
      if (top_ >= loaded_.tokenizer->n_tokens()) top_ = 0;
    }
  }

  /// Median of `runs` prompts of n random tokens, after one that is not counted.
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

  /// The same for n steps of each of `batch` generations behind prompts of `behind` tokens, `rows`
  /// rows each in every step. More than one row are those of drafts that are verified, all of which
  /// are kept.
  Result<Measured> decode(int32_t n, int32_t batch, int32_t rows, int32_t behind) {
    return repeat([&]() -> Result<Measured> {
      std::vector<Sequence> generations(static_cast<size_t>(batch));
      Measured prompts;
      for (Sequence& generation : generations) {
        generation.state = loaded_.model->states().create_sequence();
        if (sampling_) generation.sampler.emplace(*sampling_);
        CHIMERE_CHECK_OK(read(*generation.state, behind, prompts));
      }
      Measured sum;
      const bool ahead = runs_overlapped(batch, rows);
      const auto draw_last = [&](int32_t i) -> Status {
        CHIMERE_TRY(const model::StepResult result, loaded_.model->wait());
        return draw(result, rows, behind + i, generations);
      };
      const Stopwatch watch;
      for (int32_t i = 0; i < n; ++i) {
        model::StepPlan plan;
        for (const Sequence& generation : generations) {
          model::SequenceRows& of_sequence = plan.sequences.emplace_back();
          of_sequence.state = generation.state.get();
          of_sequence.tokens = random_tokens(rows);
          if (generation.next >= 0) of_sequence.tokens[0] = generation.next;
          for (int32_t r = 0; r < rows; ++r) of_sequence.logits_of.push_back(r);
          of_sequence.top = top_;
          if (!ahead) continue;
          of_sequence.choice = generation.sampler->choice_on_gpu(static_cast<uint64_t>(behind) +
                                                                 static_cast<uint64_t>(i));
          of_sequence.async_token = i > 0;
        }
        ++steps_;
        sum.bytes += bytes_.decode_step(behind + i * rows, batch);
        if (ahead) {
          CHIMERE_CHECK_OK(loaded_.model->launch(plan));
          if (i > 0) CHIMERE_CHECK_OK(draw_last(i - 1));
          continue;
        }
        CHIMERE_TRY(const model::StepResult result, loaded_.model->forward(plan));
        if (sampling_) CHIMERE_CHECK_OK(draw(result, rows, behind + i * rows, generations));
      }
      if (ahead) CHIMERE_CHECK_OK(draw_last(n - 1));
      sum.seconds = watch.seconds();
      return sum;
    });
  }

  /// Times of the steps of `batch` generations with 1, 2, .. kMaxRows rows each, all but the first
  /// drafts that are wrong.
  Result<std::vector<double>> step_times(int32_t batch, int32_t behind) {
    constexpr int32_t kSteps = 8;
    std::vector<double> times;
    for (int32_t rows = 1; rows <= kMaxRows; ++rows) {
      CHIMERE_TRY(const Measured m,
                  repeat([&] { return recorded(kSteps, batch, behind, rows - 1, 0.0); }));
      times.push_back(m.seconds / kSteps);
    }
    return times;
  }

  /// Generations of n tokens that are known beforehand.
  Result<Measured> without_drafts(int32_t n, int32_t batch, int32_t behind) {
    return repeat([&] { return recorded(n, batch, behind, 0, 0.0); });
  }

  /// Such generations with drafts that are their next tokens as long as numbers drawn at random are
  /// below `acceptance`: how fast a model would be whose drafts are right so often. As many a step
  /// as gain most by `step_times`; `off` are generations without drafts.
  Result<Measured> drafted(int32_t n, int32_t batch, int32_t behind, double acceptance,
                           const std::vector<double>& step_times, const Measured& off) {
    DraftedGenerations generations;
    generations.acceptance = acceptance;
    double tokens = 0;
    double chain = 1;
    double best = 0;
    for (int32_t depth = 0; depth < kMaxRows; ++depth, chain *= acceptance) {
      tokens += chain;
      const double rate = tokens / step_times[static_cast<size_t>(depth)];
      if (rate > best) generations.depth = depth;
      best = std::max(best, rate);
    }
    CHIMERE_TRY(Measured m,
                repeat([&] { return recorded(n, batch, behind, generations.depth, acceptance); }));
    generations.tokens_per_step = m.drafted->tokens_per_step;
    generations.of_off = off.seconds / m.seconds;
    m.drafted = generations;
    return m;
  }

 private:
  struct Sequence {
    std::unique_ptr<state::SequenceState> state;
    std::optional<sampling::Sampler> sampler;
    int32_t next = -1;                         ///< the token that was drawn last; -1: none yet
    std::vector<sampling::Candidate> largest;  ///< here for its memory
  };

  /// A generation whose tokens are known.
  struct KnownContinuation {
    std::unique_ptr<state::SequenceState> state;
    std::vector<int32_t> tokens;
    int32_t at = 0;     ///< tokens so far
    int32_t right = 0;  ///< drafts of this step
  };

  /// One run of `batch` such generations with `depth` drafts a step, of which the first ones are
  /// right.
  Result<Measured> recorded(int32_t n, int32_t batch, int32_t behind, int32_t depth,
                            double acceptance) {
    std::vector<KnownContinuation> generations(static_cast<size_t>(batch));
    Measured prompts;
    for (KnownContinuation& generation : generations) {
      generation.state = loaded_.model->states().create_sequence();
      generation.tokens = random_tokens(n + depth + 1);
      CHIMERE_CHECK_OK(read(*generation.state, behind, prompts));
    }
    Measured sum;
    int64_t decode_steps = 0;
    std::uniform_real_distribution<double> drawn;
    const Stopwatch watch;
    while (true) {
      model::StepPlan plan;
      for (KnownContinuation& generation : generations) {
        if (generation.at >= n) continue;
        model::SequenceRows& rows = plan.sequences.emplace_back();
        rows.state = generation.state.get();
        rows.revocable = depth > 0;
        rows.top = 1;
        generation.right = 0;
        for (int32_t i = 0; i <= depth; ++i) {
          const bool right = i == 0 || (generation.right == i - 1 && drawn(random_) < acceptance);
          if (i > 0 && right) generation.right = i;
          const int32_t token =
              generation.tokens[static_cast<size_t>(generation.at) + static_cast<size_t>(i)];
          rows.tokens.push_back(right ? token : (token + 1) % loaded_.model->n_vocab());
          rows.logits_of.push_back(i);
        }
      }
      if (plan.sequences.empty()) break;
      CHIMERE_CHECK_OK(forward(plan));
      sum.bytes += bytes_.decode_step(behind + generations.front().at,
                                      static_cast<int32_t>(plan.sequences.size()));
      for (KnownContinuation& generation : generations) {
        if (generation.at >= n) continue;
        if (depth > 0) CHIMERE_CHECK_OK(generation.state->commit(1 + generation.right));
        generation.at += 1 + generation.right;
        ++decode_steps;
      }
    }
    sum.seconds = watch.seconds();
    double tokens = 0;
    for (const KnownContinuation& generation : generations) tokens += generation.at;
    // Beyond the last token asked for there may be some that came with it.
    sum.seconds *= static_cast<double>(n) * batch / tokens;
    sum.drafted.emplace();
    sum.drafted->tokens_per_step = tokens / static_cast<double>(decode_steps);
    return sum;
  }

  /// Whether steps are launched before the tokens of the ones before them are known, as the engine
  /// does it.
  bool runs_overlapped(int32_t batch, int32_t rows) const {
    return sampling_ && !wait_ && top_ > 0 && rows == 1 && batch <= kernels::kMaxChoices &&
           loaded_.model->supports_overlap() && sampling::Sampler(*sampling_).choice_on_gpu(0);
  }

  /// A token for each row; that of a generation's last row is its next one.
  Status draw(const model::StepResult& result, int32_t rows, int64_t position,
              std::vector<Sequence>& generations) {
    std::vector<Status> drawn(generations.size());
    const auto draw_one = [&](int64_t begin, int64_t end, int /*worker*/) {
      for (int64_t i = begin; i < end; ++i) {
        Sequence& generation = generations[static_cast<size_t>(i)];
        for (int32_t r = 0; r < rows; ++r) {
          const auto token = choose(result, i * rows + r, position + r, generation);
          if (token.ok()) {
            generation.next = token->id;
          } else {
            drawn[static_cast<size_t>(i)] = token.error();
          }
        }
      }
    };
    loaded_.pool->parallel_for(static_cast<int64_t>(generations.size()), 1, draw_one);
    for (const Status& status : drawn) CHIMERE_CHECK_OK(status);
    return {};
  }

  /// The token that a row's logits give.
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
    if (!sampled) return unsupported("bench --draw knows no cut before top-k");
    return *std::move(sampled);
  }

  /// A prompt of n random tokens.
  Status read(state::SequenceState& sequence, int32_t n, Measured& sum) {
    const std::vector<int32_t> tokens = random_tokens(n);
    for (int32_t at = 0; at < n;) {
      model::StepPlan plan;
      model::SequenceRows& rows = plan.sequences.emplace_back();
      rows.state = &sequence;
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
      // What the bytes of the others are worked out with.
      CHIMERE_TRY(const kernels::ExpertUse used, loaded_.model->expert_use());
      if (used.rows > used_before.rows) bytes_.use_experts(mean_experts(used - used_before));
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end(),
                     [](const Measured& a, const Measured& b) { return a.seconds < b.seconds; });
    CHIMERE_TRY(const kernels::ExpertUse used, loaded_.model->expert_use());
    middle->used = used - used_before;
    return *middle;
  }

  const LoadedModel& loaded_;
  BytesModel bytes_;
  int32_t runs_;
  std::optional<sampling::SamplingParams> sampling_;
  bool wait_;
  int32_t top_ = 0;  ///< largest logits that tokens are drawn from, on a GPU; 0: all
  int64_t steps_ = 0;
  std::mt19937_64 random_;  // always the same tokens: what is compared is time
};

/// Numbers from 0 to 1 between commas; none of an empty text.
Result<std::vector<double>> parse_shares(const std::string& text) {
  std::vector<double> shares;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    double share = -1;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, share);
    if (error != std::errc() || rest != text.data() + end || std::isnan(share) || share < 0 ||
        share > 1) {
      return invalid_argument(
          fmt::format("numbers from 0 to 1 between commas are wanted, not {}", text));
    }
    shares.push_back(share);
    at = end + 1;
  }
  return shares;
}

/// Tokens of the pages that so many take.
int64_t in_pages(int64_t tokens) {
  constexpr int64_t kPage = kernels::kKvPageTokens;
  return (tokens + kPage - 1) / kPage * kPage;
}

Status bench(const CommandLine& line, const BenchFlags& flags) {
  CHIMERE_TRY(const auto prompts, parse_numbers(flags.prompts, 0, kMost, "prompt length"));
  CHIMERE_TRY(const auto batches,
              parse_numbers(flags.batches, 1, LoadedModel::kHostStepRows, "batch"));
  CHIMERE_TRY(const auto rows, parse_numbers(flags.rows, 1, kMaxRows, "number of rows"));
  CHIMERE_TRY(const auto acceptances, parse_shares(flags.accept));
  const int32_t largest = *std::ranges::max_element(batches);
  const int64_t prompt = *std::ranges::max_element(prompts);
  const int64_t rows_of_generation =
      std::max(int64_t{flags.decode} * *std::ranges::max_element(rows),
               acceptances.empty() ? int64_t{0} : flags.decode + 2 * kMaxRows);
  const int64_t generation = flags.decode == 0 ? 0 : flags.behind + rows_of_generation;
  const int64_t longest = std::max<int64_t>({prompt, generation, 1});
  // One prompt, or all generations of the largest batch.
  CHIMERE_TRY(const LoadedModel loaded,
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
  if (flags.draw) {
    CHIMERE_TRY(const engine::Request request,
                RequestFactory(*loaded.tokenizer).make(line.settings));
    sampling = request.sampling;
    sampling->seed = 0;
  }
  Bench bench(loaded, flags.runs, std::move(sampling), flags.wait);
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
  const std::string behind = flags.behind == 0 ? "" : fmt::format("@{}", flags.behind);
  for (const int32_t batch : batches) {
    for (const int32_t n : rows) {
      if (flags.decode == 0) continue;
      CHIMERE_TRY(const Measured m, bench.decode(flags.decode, batch, n, flags.behind));
      const std::string each = n == 1 ? "" : fmt::format("x{}", n);
      const char* const test = flags.draw ? "tgd" : "tg";
      report.add(fmt::format("{}{}{}{}", test, flags.decode, each, behind), batch,
                 static_cast<double>(flags.decode) * batch * n, m);
    }
    if (flags.decode == 0 || acceptances.empty()) continue;
    CHIMERE_TRY(const std::vector<double> times, bench.step_times(batch, flags.behind));
    CHIMERE_TRY(const Measured off, bench.without_drafts(flags.decode, batch, flags.behind));
    for (const double acceptance : acceptances) {
      CHIMERE_TRY(const Measured m,
                  bench.drafted(flags.decode, batch, flags.behind, acceptance, times, off));
      report.add(fmt::format("tg{}d{}{}", flags.decode, acceptance, behind), batch,
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
      "Speed of prompts and replies, and the bytes behind it; without --ctx there is room "
      "for the tests and no more",
      [&line, flags] { return bench(line, *flags); });
  command.option("-p,--prompt", flags->prompts, "Prompt lengths, like 512,4096; 0: none")
      .check(number_list(0, kMost, "prompt length"))
      .show_default();
  command
      .option("-n,--decode", flags->decode, "Steps of a reply, a token each (see --rows); 0: none")
      .range(0, 1 << 20)
      .show_default();
  command.option("-b,--batch", flags->batches, "Replies at the same time, like 1,2,4,8")
      .check(number_list(1, LoadedModel::kHostStepRows, "batch"))
      .show_default();
  command
      .option("--step-rows", flags->step_rows,
              "Rows of a prompt in one step; 0: as many as suit the back end")
      .one_of({"0", "512", "1024", "2048", "4096", "8192"})
      .show_default();
  command
      .option("--rows", flags->rows,
              "Rows of a reply in each step, as where drafts are verified, like 1,4")
      .check(number_list(1, kMaxRows, "number of rows"))
      .show_default();
  command.option("--behind", flags->behind, "Tokens of the prompt that replies follow")
      .range(0, 1 << 24)
      .show_default();
  command.flag("--wait", flags->wait,
               "With --draw, on a GPU: no step is launched before the tokens of the one before it "
               "are known");
  command.flag("--draw", flags->draw,
               "Replies draw their tokens, as `chimere run` does without flags (tests named "
               "tgd), instead of going on with random ones");
  command
      .option("--accept", flags->accept,
              "Also replies with drafts that are right so often behind one that was right, "
              "like 0.6,0.8 (tests named tgNd0.6): a simulation with tokens known beforehand, "
              "as many drafts a step as the times of steps make best, and the largest logit of "
              "each row alone")
      .check([](const std::string& text) {
        const auto shares = parse_shares(text);
        return shares.ok() ? std::string() : shares.error().message;
      });
  command.option("-r,--runs", flags->runs, "Runs of each test; the median counts")
      .range(1, 1000)
      .show_default();
  add_settings(command, line, model_settings());
  add_settings(command, line, quiet_setting());
}

}  // namespace chimere::app
