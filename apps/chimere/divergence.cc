// chimere eval divergence: the KL divergence between two models, or two ways to run one.
#include "sampling/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "json.h"
#include "loading.h"
#include "progress_line.h"
#include "runtime/loaded_model.h"
#include "runtime/prediction.h"

namespace chimere::app {
namespace {

struct DivergenceFlags {
  std::string file;
  std::string base;
  std::vector<std::pair<const SettingInfo*, std::string>> base_settings;
};

struct Compared {
  std::vector<double> kl;  ///< of each position
  int64_t same_top = 0;
  double nats = 0;       ///< sum of the model's negative log-likelihoods
  double base_nats = 0;  ///< and of the base's
};

/// Positions correspond only if both models tokenize the text in the same way.
Status check_comparable(const runtime::LoadedModel& model, const runtime::LoadedModel& base,
                        const runtime::TokenText& text, const runtime::TokenText& other) {
  if (model.model->n_vocab() != base.model->n_vocab()) {
    return invalid_argument(
        fmt::format("The vocabularies of the two models have {} and {} tokens; only models with "
                    "the same vocabulary can be compared.",
                    model.model->n_vocab(), base.model->n_vocab()));
  }
  if (other.tokens == text.tokens) return {};
  return invalid_argument(
      "The two models split the text into different tokens; only models with the same vocabulary "
      "can "
      "be compared.");
}

Result<Compared> compare(const runtime::LoadedModel& model, const runtime::LoadedModel& base,
                         std::span<const int32_t> tokens, int64_t context,
                         const Settings& settings) {
  Compared sum;
  double total = 0;
  const auto use = [&](int64_t position, std::span<const runtime::LogitsRow> rows) -> Status {
    CHIMERE_TRY(const auto d, sampling::divergence(rows[1], rows[0]));
    sum.kl.push_back(d.kl);
    total += d.kl;
    sum.same_top += d.same_top ? 1 : 0;
    const int32_t next = tokens[static_cast<size_t>(position + 1)];
    CHIMERE_TRY(const double nats, runtime::negative_log_likelihood(rows[0], next));
    CHIMERE_TRY(const double base_nats, runtime::negative_log_likelihood(rows[1], next));
    sum.nats += nats;
    sum.base_nats += base_nats;
    return {};
  };
  ProgressLine line(settings);
  const auto progress = [&](int64_t done) {
    line.show(fmt::format("{} of {} tokens, mean KL {:.6g} ", done, tokens.size(),
                          total / static_cast<double>(sum.kl.size())));
  };
  const std::array<const runtime::LoadedModel*, 2> models = {&model, &base};
  CHIMERE_CHECK_OK(runtime::predict_text(models, tokens, context, use, progress));
  return sum;
}

Json report(Compared& sum, int64_t context) {
  std::ranges::sort(sum.kl);
  const auto n = static_cast<double>(sum.kl.size());
  // The smallest value that a fraction q of all positions does not exceed.
  const auto quantile = [&](double q) {
    return sum.kl[static_cast<size_t>(std::max(0.0, std::ceil(q * n) - 1))];
  };
  double total = 0;  // summed in ascending order, for accuracy
  for (const double kl : sum.kl) total += kl;
  return {{"kld", total / n},
          {"median", quantile(0.5)},
          {"p99", quantile(0.99)},
          {"p999", quantile(0.999)},
          {"max", sum.kl.back()},
          {"top1", static_cast<double>(sum.same_top) / n},
          {"tokens", sum.kl.size()},
          {"perplexity", std::exp(sum.nats / n)},
          {"base_perplexity", std::exp(sum.base_nats / n)},
          {"context", context}};
}

Status eval_divergence(const CommandLine& line, const DivergenceFlags& flags) {
  if (flags.base.empty() && flags.base_settings.empty()) {
    return invalid_argument(
        "There is nothing to compare with: name another model (--base MODEL), or say how the base "
        "runs differently (--base-cache-k, --base-cache-v, --base-expert-top-p, --base-backend).");
  }
  CHIMERE_TRY(const runtime::LoadedModel model, load(line.settings, {.default_context = 2048}));
  Settings base_settings = line.settings;
  CHIMERE_CHECK_OK(base_settings.set(
      settings::kModel, flags.base.empty() ? model.file->path() : flags.base, "--base"));
  for (const auto& [setting, value] : flags.base_settings) {
    CHIMERE_CHECK_OK(base_settings.set(*setting, value, "--base-" + std::string(setting->name)));
  }
  CHIMERE_TRY(const runtime::LoadedModel base, load(base_settings, {.default_context = 2048}));
  CHIMERE_TRY(const std::string contents, read_file(flags.file));  // standard input: only once
  CHIMERE_TRY(const runtime::TokenText text, runtime::tokens_of_text(model, contents, flags.file));
  CHIMERE_TRY(const runtime::TokenText other, runtime::tokens_of_text(base, contents, flags.file));
  CHIMERE_CHECK_OK(check_comparable(model, base, text, other));
  const int64_t context = std::min(model.context, base.context);
  CHIMERE_TRY(Compared sum, compare(model, base, text.tokens, context, line.settings));
  const Json result = report(sum, context);
  if (line.json) {
    print_json(result);
    return {};
  }
  const auto value = [&](const char* key) { return result[key].get<double>(); };
  std::cout << fmt::format(
      "KL(base || model): mean {:.6g}, median {:.6g}, 99 % below {:.6g}, 99.9 % below {:.6g}, "
      "largest {:.6g} nats\n"
      "same most likely token: {:.3f} % of {} positions\n"
      "perplexity {:.4f}, of the base {:.4f}\n",
      value("kld"), value("median"), value("p99"), value("p999"), value("max"), 100 * value("top1"),
      result["tokens"].get<int64_t>(), value("perplexity"), value("base_perplexity"));
  return {};
}

}  // namespace

void declare_divergence(Command& eval, CommandLine& line) {
  const auto flags = std::make_shared<DivergenceFlags>();
  Command command = add_command(eval, line, "divergence",
                                "Measures the KL divergence of a model from another on a text",
                                [&line, flags] { return eval_divergence(line, *flags); });
  command.option("-f,--file", flags->file, "The text; - for standard input").required();
  command
      .option("--base", flags->base,
              "The reference model; without it the same model with the --base-... settings")
      .check(not_empty(kNameModel));
  for (const SettingInfo* s : {static_cast<const SettingInfo*>(&settings::kCacheK),
                               static_cast<const SettingInfo*>(&settings::kCacheV),
                               static_cast<const SettingInfo*>(&settings::kExpertTopP),
                               static_cast<const SettingInfo*>(&settings::kBackend)}) {
    command
        .option(
            "--base-" + std::string(s->name),
            [flags, s](const std::string& text) { flags->base_settings.emplace_back(s, text); },
            "--" + std::string(s->name) + " of the base (" + settings::range_text(*s) + ")")
        .check(setting_value(*s));
  }
  add_settings(command, line, {SettingGroup::kModel, SettingGroup::kQuiet});
}

}  // namespace chimere::app
