// chimere eval logits, chimere eval perplexity
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "json.h"
#include "loaded_model.h"
#include "model/chunking.h"
#include "sampling/log_softmax.h"

namespace chimere::app {
namespace {

constexpr int32_t kMaxId = std::numeric_limits<int32_t>::max();

/// Runs tokens through the model and hands over the logits of positions [first, tokens.size()), in
/// order. The rows go in steps of at most 64, so that the logits of a large vocabulary stay small;
/// the results do not depend on the steps.
Status for_each_logits(const LoadedModel& loaded, std::span<const int32_t> tokens,
                       model::RowClass row_class, int64_t first,
                       const std::function<Status(int64_t, std::span<const float>)>& use) {
  std::vector<int32_t> message_starts;
  if (const int32_t start = loaded.tokenizer->find("<|im_start|>"); start >= 0)
    message_starts.push_back(start);
  const auto sequence = loaded.model->states().create_sequence();
  int64_t at = 0;
  for (const int32_t size : model::chunk_sizes(tokens, message_starts)) {
    model::StepPlan plan;
    model::SequenceRows& rows = plan.sequences.emplace_back();
    rows.state = sequence.get();
    rows.row_class = row_class;
    const auto chunk = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
    rows.tokens.assign(chunk.begin(), chunk.end());
    if (row_class == model::RowClass::kChunk) rows.chunks = {size};
    for (int32_t r = 0; r < size; ++r) {
      if (at + r >= first) rows.logits_of.push_back(r);
    }
    CHIMERE_TRY(const model::StepResult result, loaded.model->forward(plan));
    for (int64_t r = 0; r < result.logits.rows; ++r) {
      const auto logits = std::span(result.logits.row(r), static_cast<size_t>(result.logits.cols));
      CHIMERE_CHECK_OK(use(at + rows.logits_of[static_cast<size_t>(r)], logits));
    }
    at += size;
  }
  return {};
}

struct LogitsFlags {
  std::string tokens;
  int64_t top = 10;
  bool all = false;
  std::string row_class = "chunk";
};

void print_position(const LoadedModel& loaded, int64_t position,
                    const std::vector<sampling::Candidate>& top) {
  std::cout << fmt::format("position {}\n", position);
  for (const auto& [logprob, id] : top) {
    std::cout << fmt::format(
        "  {:>8}  {:10.5f}  {}\n", id, logprob,
        Json(loaded.tokenizer->token_bytes(id, true)).dump(-1, ' ', false, kLenient));
  }
}

Status eval_logits(const CommandLine& line, const LogitsFlags& flags) {
  CHIMERE_TRY(const auto tokens, parse_numbers(flags.tokens, 0, kMaxId, "token id"));
  CHIMERE_TRY(const LoadedModel loaded, load(line.settings, {}));
  const auto n = static_cast<int64_t>(tokens.size());
  if (n > loaded.context) {
    return invalid_argument(
        fmt::format("There are {} tokens, but the context holds {}.", n, loaded.context));
  }
  // Whole vocabularies at many positions are large: the document is written as it is computed.
  if (line.json) std::cout << R"({"positions":[)";
  bool comma = false;
  const auto show = [&](int64_t position, std::span<const float> logits) -> Status {
    CHIMERE_TRY(const auto largest, sampling::find_largest(logits));
    const auto distribution = sampling::summarise(logits, largest.value);
    const auto top = sampling::top_logprobs(logits, distribution, flags.top);
    if (!line.json) {
      print_position(loaded, position, top);
      return {};
    }
    fmt::memory_buffer out;
    fmt::format_to(std::back_inserter(out), R"({}{{"pos":{},"top":[)",
                   std::exchange(comma, true) ? "," : "", position);
    for (size_t i = 0; i < top.size(); ++i) {
      fmt::format_to(std::back_inserter(out), R"({}{{"id":{},"logprob":{}}})", i > 0 ? "," : "",
                     top[i].id, top[i].value);
    }
    fmt::format_to(std::back_inserter(out), "]}}");
    std::cout.write(out.data(), static_cast<std::streamsize>(out.size()));
    return {};
  };
  const auto row_class =
      flags.row_class == "step" ? model::RowClass::kStep : model::RowClass::kChunk;
  CHIMERE_CHECK_OK(for_each_logits(loaded, tokens, row_class, flags.all ? 0 : n - 1, show));
  if (line.json) std::cout << "]}\n";
  return {};
}

/// Sum of negative log-likelihoods, in nats, and the number of tokens in it.
struct Surprise {
  double nats = 0;
  int64_t tokens = 0;
};

/// Windows of `context` tokens that move on by half of it: every token but the first is predicted
/// once, from at least half a window of what stands before it (or all there is).
Result<Surprise> measure(const LoadedModel& loaded, const std::vector<int32_t>& tokens,
                         int64_t context) {
  Surprise sum;
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t stride = std::max<int64_t>(1, context / 2);
  for (int64_t begin = 0, scored = 1; scored < n; begin += stride) {
    const int64_t end = std::min(n, begin + context);
    const auto window =
        std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const auto score = [&](int64_t position, std::span<const float> logits) -> Status {
      const int64_t next = begin + position + 1;
      if (next >= end) return {};
      CHIMERE_TRY(const auto largest, sampling::find_largest(logits));
      const auto target = static_cast<size_t>(tokens[static_cast<size_t>(next)]);
      sum.nats += sampling::summarise(logits, largest.value).log_sum - logits[target];
      ++sum.tokens;
      return {};
    };
    CHIMERE_CHECK_OK(
        for_each_logits(loaded, window, model::RowClass::kChunk, scored - 1 - begin, score));
    scored = end;
    std::cerr << fmt::format("\r{} of {} tokens, perplexity {:.4f} ", scored, n,
                             std::exp(sum.nats / static_cast<double>(sum.tokens)));
  }
  std::cerr << '\n';
  return sum;
}

Status eval_perplexity(const CommandLine& line, const std::string& path) {
  CHIMERE_TRY(const std::string text, read_file(path));
  CHIMERE_TRY(const LoadedModel loaded, load(line.settings, {.default_context = 2048}));
  std::vector<int32_t> tokens = loaded.tokenizer->encode(text, false);
  if (loaded.tokenizer->add_bos() && loaded.tokenizer->bos() >= 0) {
    tokens.insert(tokens.begin(), loaded.tokenizer->bos());
  }
  if (tokens.size() < 2)
    return invalid_argument("The file '" + path + "' is too short: two tokens are needed.");
  if (loaded.context < 2)
    return invalid_argument("A context of two tokens or more is needed (--ctx).");
  CHIMERE_TRY(const Surprise sum, measure(loaded, tokens, loaded.context));
  const double per_token = sum.nats / static_cast<double>(sum.tokens);
  // Of the text behind the first token, which nothing predicts.
  const size_t first = loaded.tokenizer->token_bytes(tokens[0], false).size();
  const double bits_per_byte =
      sum.nats / std::numbers::ln2 / static_cast<double>(text.size() - first);
  if (line.json) {
    print_json({{"perplexity", std::exp(per_token)},
                {"tokens", sum.tokens},
                {"bits_per_byte", bits_per_byte},
                {"context", loaded.context}});
  } else {
    std::cout << fmt::format("perplexity {:.4f} over {} tokens, {:.4f} bits a byte\n",
                             std::exp(per_token), sum.tokens, bits_per_byte);
  }
  return {};
}

}  // namespace

void declare_eval(CLI::App& app, CommandLine& line) {
  CLI::App* eval = app.add_subcommand("eval", "Measures a model: logits, perplexity");
  eval->require_subcommand(1);

  const auto flags = std::make_shared<LogitsFlags>();
  CLI::App* logits =
      add_command(*eval, line, "logits", "Log-probabilities of the next token after given tokens",
                  [&line, flags] { return eval_logits(line, *flags); });
  logits->add_option("--tokens", flags->tokens, "Token ids, like 1,2,3")
      ->required()
      ->check(number_list(0, kMaxId, "token id"));
  logits->add_option("--top", flags->top, "How many of the most likely tokens to print")
      ->check(CLI::Range(1, kMaxId))
      ->capture_default_str();
  logits->add_flag("--all", flags->all, "After every token, not the last one alone");
  logits
      ->add_option("--class", flags->row_class,
                   "Arithmetic of the rows: as a prompt's, or as a reply's")
      ->check(CLI::IsMember({"chunk", "step"}))
      ->capture_default_str();
  add_settings(*logits, line, model_settings());

  const auto path = std::make_shared<std::string>();
  CLI::App* perplexity = add_command(*eval, line, "perplexity", "How well a model predicts a text",
                                     [&line, path] { return eval_perplexity(line, *path); });
  perplexity->add_option("-f,--file", *path, "The text")->required();
  add_settings(*perplexity, line, model_settings());
}

}  // namespace chimere::app
