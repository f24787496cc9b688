// chimere eval logits and eval perplexity. eval divergence is in divergence.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "engram/memory.h"
#include "json.h"
#include "loading.h"
#include "progress_line.h"
#include "runtime/engram_tables.h"
#include "runtime/loaded_model.h"
#include "runtime/prediction.h"
#include "sampling/log_softmax.h"

namespace chimere::app {
namespace {

struct LogitsFlags {
  std::string tokens;
  int64_t top = 10;
  bool all = false;
  std::string row_class = "prefill";
};

void print_position(const runtime::LoadedModel& loaded, int64_t position,
                    const std::vector<sampling::Candidate>& top) {
  std::cout << fmt::format("position {}\n", position);
  for (const auto& [logprob, id] : top) {
    std::cout << fmt::format(
        "  {:>8}  {:10.5f}  {}\n", id, logprob,
        Json(loaded.tokenizer->token_bytes(id, true)).dump(-1, ' ', false, kLenient));
  }
}

Status eval_logits(const CommandLine& line, const LogitsFlags& flags) {
  CHIMERE_TRY(const auto tokens, parse_numbers(flags.tokens, 0, kMaxTokenId, "token id"));
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(line.settings, {}));
  const auto n = static_cast<int64_t>(tokens.size());
  if (n > loaded.context) {
    return invalid_argument(
        fmt::format("There are {} tokens, but the context holds {}.", n, loaded.context));
  }
  // Whole vocabularies at many positions are large: the document is written while it is computed.
  if (line.json) std::cout << R"({"positions":[)";
  bool comma = false;
  const auto show = [&](int64_t position, std::span<const runtime::LogitsRow> rows) -> Status {
    const runtime::LogitsRow logits = rows[0];
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
  const int64_t decode_from = flags.row_class == "decode" ? 0 : n;
  const runtime::LoadedModel* model = &loaded;
  CHIMERE_CHECK_OK(
      runtime::for_each_logits({&model, 1}, tokens, decode_from, flags.all ? 0 : n - 1, show));
  if (line.json) std::cout << "]}\n";
  return {};
}

/// Sum of negative log-likelihoods, in nats, and the number of tokens in it.
struct NegativeLogLikelihood {
  double nats = 0;
  int64_t tokens = 0;
};

Result<NegativeLogLikelihood> measure(const runtime::LoadedModel& loaded, const Settings& settings,
                                      std::span<const int32_t> tokens, engram::Memory& memory) {
  NegativeLogLikelihood sum;
  const auto score = [&](int64_t position, std::span<const runtime::LogitsRow> rows) -> Status {
    const auto history = tokens.first(static_cast<size_t>(position) + 1);
    const int32_t next = tokens[history.size()];
    CHIMERE_TRY(const bool known, memory.look_up(history));
    if (known) {
      CHIMERE_TRY(const engram::ModelPrediction prediction, runtime::prediction_of(rows[0]));
      sum.nats -= std::log(runtime::mixed_probability(prediction, memory.mix(prediction), next));
    } else {
      CHIMERE_TRY(const double nats, runtime::negative_log_likelihood(rows[0], next));
      sum.nats += nats;
    }
    ++sum.tokens;
    return {};
  };
  ProgressLine line(settings);
  const auto progress = [&](int64_t done) {
    line.show(fmt::format("{} of {} tokens, perplexity {:.4f} ", done, tokens.size(),
                          std::exp(sum.nats / static_cast<double>(sum.tokens))));
  };
  const runtime::LoadedModel* model = &loaded;
  CHIMERE_CHECK_OK(runtime::predict_text({&model, 1}, tokens, loaded.context, score, progress));
  return sum;
}

Status eval_perplexity(const CommandLine& line, const std::string& path) {
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(line.settings, {.default_context = 2048}));
  CHIMERE_TRY(const runtime::TokenText text, read_tokens(loaded, path));
  CHIMERE_TRY(auto tables,
              runtime::open_tables(runtime::split_paths(line.settings.get(settings::kEngram)),
                                   line.settings, *loaded.tokenizer));
  CHIMERE_TRY(engram::Memory memory,
              engram::Memory::create(std::move(tables), runtime::gating_of(line.settings)));
  CHIMERE_TRY(const NegativeLogLikelihood sum, measure(loaded, line.settings, text.tokens, memory));
  const double per_token = sum.nats / static_cast<double>(sum.tokens);
  // Without the first token, which is not predicted.
  const size_t first = loaded.tokenizer->token_bytes(text.tokens[0], false).size();
  const double bits_per_byte =
      sum.nats / std::numbers::ln2 / static_cast<double>(text.bytes - first);
  CHIMERE_TRY(const kernels::ExpertUse use, loaded.model->expert_use());
  if (line.json) {
    Json result = {{"perplexity", std::exp(per_token)},
                   {"tokens", sum.tokens},
                   {"bits_per_byte", bits_per_byte},
                   {"context", loaded.context}};
    if (use.rows > 0) result["experts_per_token"] = runtime::mean_experts(use);
    print_json(result);
  } else {
    std::cout << fmt::format("perplexity {:.4f} over {} tokens, {:.4f} bits a byte\n",
                             std::exp(per_token), sum.tokens, bits_per_byte);
    if (use.rows > 0)
      std::cout << fmt::format("{:.3f} experts a token\n", runtime::mean_experts(use));
  }
  return {};
}

}  // namespace

void declare_eval(Command& app, CommandLine& line) {
  Command eval =
      app.group("eval", "Measures how well a model predicts a text, and how far two models differ");

  const auto flags = std::make_shared<LogitsFlags>();
  Command logits = add_command(eval, line, "logits",
                               "Prints log-probabilities of the next token after given tokens",
                               [&line, flags] { return eval_logits(line, *flags); });
  logits.option("--tokens", flags->tokens, "Token ids, like 1,2,3")
      .required()
      .check(number_list(0, kMaxTokenId, "token id"));
  logits.option("--top", flags->top, "Number of most likely tokens to print")
      .range(1, kMaxTokenId)
      .show_default();
  logits.flag("--all", flags->all, "After every token, not only the last one");
  logits.option("--class", flags->row_class, "Arithmetic of the rows: that of prefill or of decode")
      .one_of({"prefill", "decode"})
      .show_default();
  add_settings(logits, line, {SettingGroup::kModel, SettingGroup::kAdapters, SettingGroup::kQuiet});

  const auto path = std::make_shared<std::string>();
  Command perplexity = add_command(eval, line, "perplexity", "Measures the perplexity of a text",
                                   [&line, path] { return eval_perplexity(line, *path); });
  perplexity.option("-f,--file", *path, "The text; - for standard input").required();
  add_settings(perplexity, line,
               {SettingGroup::kModel, SettingGroup::kAdapters, SettingGroup::kQuiet,
                SettingGroup::kEngramTables});

  declare_divergence(eval, line);
}

}  // namespace chimere::app
