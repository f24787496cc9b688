// chimere bench: speed of prompts and replies, beside the bytes they must move and what memory can
// move.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bandwidth.h"
#include "bytes_model.h"
#include "card.h"
#include "command.h"
#include "json.h"
#include "kernels/cuda/device/profile.h"
#include "loaded_model.h"
#include "model/chunking.h"
#include "request.h"
#include "sampling/sampler.h"
#include "stopwatch.h"

namespace chimere::app {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
/// Most rows of a reply in a step: more drafts are never verified at once.
constexpr int32_t kMostRows = 16;

struct BenchFlags {
  std::string prompts = "512";
  int32_t decode = 128;
  std::string batches = "1";
  std::string rows = "1";
  int32_t behind = 0;
  int32_t runs = 3;
  int32_t step_rows = 0;
  bool draw = false;
};

struct Measured {
  double seconds = 0;
  double bytes = 0;
  // Of the whole test, on a card.
  int64_t steps = 0;
  kernels::cuda::StreamCounts asked;
  kernels::ExpertUse used;  ///< of all runs, where experts are left out
};

kernels::cuda::StreamCounts operator-(const kernels::cuda::StreamCounts& a,
                                      const kernels::cuda::StreamCounts& b) {
  return {a.launches - b.launches, a.graph_launches - b.graph_launches,
          a.synchronisations - b.synchronisations};
}

kernels::ExpertUse operator-(const kernels::ExpertUse& a, const kernels::ExpertUse& b) {
  return {a.rows - b.rows, a.experts - b.experts};
}

class Bench {
 public:
  /// `sampling`: how replies choose their tokens; nothing: they are random ones.
  Bench(const LoadedModel& loaded, int32_t runs, std::optional<sampling::SamplingParams> sampling)
      : loaded_(loaded), bytes_(loaded), runs_(runs), sampling_(std::move(sampling)) {
    // As the engine does for requests with the same parameters.
    if (sampling_ && loaded_.model->logits_on_card()) {
      top_ = sampling::Sampler(*sampling_).largest_needed(kernels::kMostTopLogits);
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

  /// The same for n steps of each of `batch` replies behind prompts of `behind` tokens, `rows`
  /// rows each in every step. More than one row are those of drafts that are verified, all of which
  /// are kept.
  Result<Measured> decode(int32_t n, int32_t batch, int32_t rows, int32_t behind) {
    return repeat([&]() -> Result<Measured> {
      std::vector<Reply> replies(static_cast<size_t>(batch));
      Measured prompts;
      for (Reply& reply : replies) {
        reply.state = loaded_.model->states().create_sequence();
        if (sampling_) reply.sampler.emplace(*sampling_);
        CHIMERE_CHECK_OK(read(*reply.state, behind, prompts));
      }
      Measured sum;
      const Stopwatch watch;
      for (int32_t i = 0; i < n; ++i) {
        model::StepPlan plan;
        for (const Reply& reply : replies) {
          model::SequenceRows& of_sequence = plan.sequences.emplace_back();
          of_sequence.state = reply.state.get();
          of_sequence.tokens = random_tokens(rows);
          if (reply.next >= 0) of_sequence.tokens[0] = reply.next;
          for (int32_t r = 0; r < rows; ++r) of_sequence.logits_of.push_back(r);
          of_sequence.top = top_;
        }
        ++steps_;
        CHIMERE_TRY(const model::StepResult result, loaded_.model->forward(plan));
        if (sampling_) CHIMERE_CHECK_OK(draw(result, rows, behind + i * rows, replies));
        sum.bytes += bytes_.decode_step(behind + i * rows, batch);
      }
      sum.seconds = watch.seconds();
      return sum;
    });
  }

 private:
  struct Reply {
    std::unique_ptr<state::SequenceState> state;
    std::optional<sampling::Sampler> sampler;
    int32_t next = -1;                         ///< the token that was drawn last; -1: none yet
    std::vector<sampling::Candidate> largest;  ///< here for its memory
  };

  /// A token for each row; that of a reply's last row is its next one.
  Status draw(const model::StepResult& result, int32_t rows, int64_t position,
              std::vector<Reply>& replies) {
    std::vector<Status> drawn(replies.size());
    const auto draw_one = [&](int64_t begin, int64_t end, int /*worker*/) {
      for (int64_t i = begin; i < end; ++i) {
        Reply& reply = replies[static_cast<size_t>(i)];
        for (int32_t r = 0; r < rows; ++r) {
          const auto token = choose(result, i * rows + r, position + r, reply);
          if (token.ok()) {
            reply.next = token->id;
          } else {
            drawn[static_cast<size_t>(i)] = token.error();
          }
        }
      }
    };
    loaded_.pool->parallel_for(static_cast<int64_t>(replies.size()), 1, draw_one);
    for (const Status& status : drawn) CHIMERE_CHECK_OK(status);
    return {};
  }

  /// The token that a row's logits give.
  Result<sampling::Sampled> choose(const model::StepResult& result, int64_t row, int64_t position,
                                   Reply& reply) const {
    const auto place = static_cast<uint64_t>(position);
    if (top_ == 0) {
      const ConstMatrixView& logits = result.logits;
      return reply.sampler->sample({logits.row(row), static_cast<size_t>(logits.cols)}, {}, place);
    }
    reply.largest.clear();
    for (const kernels::TopLogit& t : result.top.row(row).first(static_cast<size_t>(top_))) {
      reply.largest.push_back({t.value, t.id});
    }
    return reply.sampler->sample_largest(reply.largest, {}, place);
  }

  /// A prompt of n random tokens.
  Status read(state::SequenceState& sequence, int32_t n, Measured& sum) {
    const std::vector<int32_t> tokens = random_tokens(n);
    for (int32_t at = 0; at < n;) {
      model::StepPlan plan;
      model::SequenceRows& rows = plan.sequences.emplace_back();
      rows.state = &sequence;
      rows.row_class = model::RowClass::kChunk;
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
    return loaded_.card != nullptr ? loaded_.card->stream().counts()
                                   : kernels::cuda::StreamCounts();
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
  int32_t top_ = 0;  ///< largest logits that tokens are drawn from, on a card; 0: all
  int64_t steps_ = 0;
  std::mt19937_64 random_;  // always the same tokens: what is compared is time
};

class Report {
 public:
  Report(bool json, const LoadedModel& loaded, const Bandwidth& bandwidth)
      : json_(json),
        context_(loaded.context),
        tokens_(loaded.options.max_tokens),
        bandwidth_(bandwidth) {
    if (loaded.card != nullptr) {
      card_ = &loaded.card->facts();
      upload_ = loaded.upload;
    }
    if (json_) return;
    if (card_ != nullptr) {
      std::cout << fmt::format("card: {}; {}\n", card_name(*card_), upload_text(upload_));
    }
    std::cout << fmt::format("context: {} tokens of a sequence, {} of all together\n", context_,
                             tokens_);
    const std::string read =
        card_ != nullptr ? "of the card" : fmt::format("read {:.1f} GB/s,", bandwidth.read);
    std::cout << fmt::format("memory: {} copy {:.1f} GB/s (read and written)\n", read,
                             bandwidth.copy);
    std::cout << fmt::format("{:>8} {:>6} {:>12} {:>10} {:>10} {:>8}\n", "test", "batch", "tok/s",
                             "moved", "GB/s", "of copy");
  }

  void add(const std::string& test, int32_t batch, double tokens, const Measured& m) {
    const double rate = tokens / m.seconds;
    const double gb_s = m.bytes / m.seconds * 1e-9;
    if (!json_) {
      std::cout << fmt::format("{:>8} {:>6} {:>12.2f} {:>10} {:>10.2f} {:>7.0f}%", test, batch,
                               rate, human_bytes(m.bytes), gb_s, 100 * gb_s / bandwidth_.copy);
      if (m.used.rows > 0)
        std::cout << fmt::format("  {:.3f} experts a token", mean_experts(m.used));
      std::cout << std::endl;
    }
    Json row = {{"test", test},
                {"batch", batch},
                {"tok_s", rate},
                {"seconds", m.seconds},
                {"bytes", m.bytes},
                {"gb_s", gb_s},
                {"of_copy", gb_s / bandwidth_.copy},
                {"context", context_},
                {"kv_tokens", tokens_},
                {"copy_gb_s", bandwidth_.copy},
                {"read_gb_s", bandwidth_.read}};
    if (m.used.rows > 0) row["experts_per_token"] = mean_experts(m.used);
    if (card_ != nullptr) {
      row["card"] = card_->name;
      row["upload_bytes"] = upload_.bytes;
      row["upload_gb_s"] = static_cast<double>(upload_.bytes) / upload_.seconds * 1e-9;
      row["profile"] = kernels::cuda::profile_name(card_->profile);
      const auto per_step = [&](int64_t n) {
        return static_cast<double>(n) / static_cast<double>(m.steps);
      };
      row["launches_per_step"] = per_step(m.asked.launches);
      row["graph_launches_per_step"] = per_step(m.asked.graph_launches);
      row["synchronisations_per_step"] = per_step(m.asked.synchronisations);
    }
    rows_.push_back(std::move(row));
  }

  void finish() const {
    if (json_) print_json(rows_);
  }

 private:
  bool json_;
  int64_t context_;
  int64_t tokens_;  ///< that there is room for
  const kernels::cuda::DeviceFacts* card_ = nullptr;
  Upload upload_;
  Bandwidth bandwidth_;
  Json rows_ = Json::array();
};

/// Tokens of the pages that so many take.
int64_t in_pages(int64_t tokens) {
  constexpr int64_t kPage = kernels::kKvPageTokens;
  return (tokens + kPage - 1) / kPage * kPage;
}

Status bench(const CommandLine& line, const BenchFlags& flags) {
  CHIMERE_TRY(const auto prompts, parse_numbers(flags.prompts, 0, kMost, "prompt length"));
  CHIMERE_TRY(const auto batches,
              parse_numbers(flags.batches, 1, LoadedModel::kHostStepRows, "batch"));
  CHIMERE_TRY(const auto rows, parse_numbers(flags.rows, 1, kMostRows, "number of rows"));
  const int32_t largest = *std::ranges::max_element(batches);
  const int64_t prompt = *std::ranges::max_element(prompts);
  const int64_t reply =
      flags.decode == 0 ? 0
                        : flags.behind + int64_t{flags.decode} * *std::ranges::max_element(rows);
  const int64_t longest = std::max<int64_t>({prompt, reply, 1});
  // One prompt, or all replies of the largest batch.
  CHIMERE_TRY(
      const LoadedModel loaded,
      load(line.settings, {.contexts = largest,
                           .default_context = longest,
                           .default_tokens = std::max({in_pages(prompt), largest * in_pages(reply),
                                                       int64_t{kernels::kKvPageTokens}}),
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
  Bench bench(loaded, flags.runs, std::move(sampling));
  Bandwidth bandwidth;
  if (loaded.card != nullptr) {
    CHIMERE_TRY(bandwidth, measure_bandwidth(*loaded.card));
  } else {
    bandwidth = measure_bandwidth(*loaded.pool);
  }
  Report report(line.json, loaded, bandwidth);
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
      .check(number_list(1, kMostRows, "number of rows"))
      .show_default();
  command.option("--behind", flags->behind, "Tokens of the prompt that replies follow")
      .range(0, 1 << 24)
      .show_default();
  command.flag("--draw", flags->draw,
               "Replies draw their tokens, as `chimere run` does without flags (tests named "
               "tgd), instead of going on with random ones");
  command.option("-r,--runs", flags->runs, "Runs of each test; the median counts")
      .range(1, 1000)
      .show_default();
  add_settings(command, line, model_settings());
}

}  // namespace chimere::app
