// chimere engram query, eval, fit: n-gram tables together with a model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "engram/fit_gate.h"
#include "engram/memory.h"
#include "json.h"
#include "loading.h"
#include "progress_line.h"
#include "runtime/engram_tables.h"
#include "runtime/loaded_model.h"
#include "runtime/prediction.h"

namespace chimere::app {
namespace {

struct EvalFlags {
  std::vector<std::string> tables;
  std::string file;
  std::string text;
  std::string output;
  int64_t top = 5;
  int64_t epochs = 60;
};

std::string readable(const text::Tokenizer& tokenizer, uint32_t token) {
  return Json(tokenizer.token_bytes(static_cast<int32_t>(token), true))
      .dump(-1, ' ', false, kLenient);
}

/// A table's successors of a context of one order.
Json evidence_json(const engram::Evidence& e, const text::Tokenizer& tokenizer, int64_t top) {
  Json nexts = Json::array();
  for (const engram::Counted& c : e.top) {
    if (nexts.size() >= static_cast<size_t>(top)) break;
    nexts.push_back({{"id", c.token},
                     {"text", tokenizer.token_bytes(static_cast<int32_t>(c.token), true)},
                     {"count", c.count}});
  }
  return {{"order", e.order},
          {"total", e.total},
          {"distinct", e.distinct},
          {"share", engram::kneser_ney_share(e)},
          {"next", std::move(nexts)}};
}

Status query(const CommandLine& line, const EvalFlags& flags) {
  CHIMERE_TRY(const auto file, open_model(line.settings));
  CHIMERE_TRY(const auto tokenizer, runtime::load_tokenizer(*file));
  CHIMERE_TRY(const auto tables, runtime::open_tables(flags.tables, line.settings, *tokenizer));
  const std::vector<int32_t> tokens = tokenizer->encode(flags.text, false);
  Json document = Json::array();
  for (const auto& table : tables) {
    std::vector<engram::Evidence> found;
    CHIMERE_CHECK_OK(table->find(tokens, found));
    Json contexts = Json::array();
    for (const auto& e : found) contexts.push_back(evidence_json(e, *tokenizer, flags.top));
    document.push_back({{"table", table->info().path}, {"contexts", std::move(contexts)}});
  }
  if (line.json) {
    print_json(document);
    return {};
  }
  for (const Json& table : document) {
    std::cout << table["table"].get<std::string>() << '\n';
    if (table["contexts"].empty()) std::cout << "  no context of this text is in the table\n";
    for (const Json& e : table["contexts"]) {
      std::cout << fmt::format(
          "  last {} tokens: {} seen, {} different, share {:.3f}:", e["order"].get<int>(),
          e["total"].get<double>(), e["distinct"].get<int64_t>(), e["share"].get<double>());
      for (const Json& n : e["next"]) {
        std::cout << fmt::format("  {} {:g}", readable(*tokenizer, n["id"].get<uint32_t>()),
                                 n["count"].get<double>());
      }
      std::cout << '\n';
    }
  }
  return {};
}

/// Sums of -ln p in nats.
struct Sums {
  double off = 0;
  double always = 0;
  double gated = 0;
  double weight = 0;  ///< of the tables in the gated mixture
  int64_t known = 0;  ///< positions with a known context
  int64_t tokens = 0;
};

Json ablation(const Sums& s) {
  const auto n = static_cast<double>(s.tokens);
  const auto row = [&](double nats) {
    return Json{{"perplexity", std::exp(nats / n)}, {"change", std::exp((nats - s.off) / n) - 1}};
  };
  return {{"tokens", s.tokens},          {"known", static_cast<double>(s.known) / n},
          {"mean_weight", s.weight / n}, {"off", row(s.off)},
          {"always", row(s.always)},     {"gated", row(s.gated)}};
}

Status eval(const CommandLine& line, const EvalFlags& flags) {
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(line.settings, {.default_context = 2048}));
  CHIMERE_TRY(const runtime::TokenText text, read_tokens(loaded, flags.file));
  CHIMERE_TRY(const auto tables,
              runtime::open_tables(flags.tables, line.settings, *loaded.tokenizer));
  CHIMERE_TRY(engram::Memory always, engram::Memory::create(tables, engram::Gating::kKneserNey));
  CHIMERE_TRY(engram::Memory gated, engram::Memory::create(tables, engram::Gating::kLearned));
  Sums sums;
  const auto use = [&](int64_t position, std::span<const runtime::LogitsRow> rows) -> Status {
    const std::span<const int32_t> tokens(text.tokens);
    const auto history = tokens.first(static_cast<size_t>(position) + 1);
    const int32_t next = tokens[history.size()];
    CHIMERE_TRY(const engram::ModelPrediction prediction, runtime::prediction_of(rows[0]));
    CHIMERE_TRY(const bool known, gated.look_up(history));
    CHIMERE_TRY(const bool same, always.look_up(history));
    sums.known += known && same ? 1 : 0;
    ++sums.tokens;
    const auto mixture = gated.mix(prediction);
    for (const auto& s : mixture) sums.weight += static_cast<double>(s.mass);
    sums.off -= prediction.log_probability(static_cast<uint32_t>(next));
    sums.gated -= std::log(runtime::mixed_probability(prediction, mixture, next));
    sums.always -= std::log(runtime::mixed_probability(prediction, always.mix(prediction), next));
    return {};
  };
  {
    ProgressLine shown(line.settings);
    const auto progress = [&](int64_t done) {
      shown.show(fmt::format("{} of {} tokens, gated {:+.2f} % ", done, text.tokens.size(),
                             100 * ablation(sums)["gated"]["change"].get<double>()));
    };
    const runtime::LoadedModel* model = &loaded;
    CHIMERE_CHECK_OK(
        runtime::predict_text({&model, 1}, text.tokens, loaded.context, use, progress));
  }
  const Json result = ablation(sums);
  if (line.json) {
    print_json(result);
    return {};
  }
  std::cout << fmt::format("{} tokens, {:.1f} % after a known context, mean weight {:.3f}\n",
                           sums.tokens, 100 * result["known"].get<double>(),
                           result["mean_weight"].get<double>());
  for (const char* row : {"off", "always", "gated"}) {
    std::cout << fmt::format("  {:8} perplexity {:9.4f}  {:+.2f} %\n", row,
                             result[row]["perplexity"].get<double>(),
                             100 * result[row]["change"].get<double>());
  }
  return {};
}

std::string gate_rows(const engram::Gate& gate) {
  std::string out;
  for (size_t i = 0; i < gate.values().size(); ++i) {
    out +=
        fmt::format("{:.4f}F,{}", gate.values()[i], (i + 1) % engram::kFeatures == 0 ? "\n" : " ");
  }
  return out;
}

/// Fits a gate: table i learns from text i of --file, like a.txt,b.txt for two tables.
Status fit(const CommandLine& line, const EvalFlags& flags) {
  const std::vector<std::string> files = runtime::split_paths(flags.file);
  if (files.size() != flags.tables.size()) {
    return invalid_argument(fmt::format(
        "{} tables and {} texts: give a text for each table (-f a.txt,b.txt TABLE TABLE).",
        flags.tables.size(), files.size()));
  }
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(line.settings, {.default_context = 2048}));
  CHIMERE_TRY(const auto tables,
              runtime::open_tables(flags.tables, line.settings, *loaded.tokenizer));
  engram::GateTrainer trainer;
  for (size_t i = 0; i < files.size(); ++i) {
    CHIMERE_TRY(const runtime::TokenText text, read_tokens(loaded, files[i]));
    CHIMERE_TRY(engram::Memory memory,
                engram::Memory::create({tables[i]}, engram::Gating::kKneserNey));
    const auto use = [&](int64_t position, std::span<const runtime::LogitsRow> rows) -> Status {
      const std::span<const int32_t> tokens(text.tokens);
      const auto history = tokens.first(static_cast<size_t>(position) + 1);
      CHIMERE_TRY(const engram::ModelPrediction prediction, runtime::prediction_of(rows[0]));
      CHIMERE_TRY(const bool known, memory.look_up(history));
      if (known) trainer.add(memory, prediction, static_cast<uint32_t>(tokens[history.size()]));
      return {};
    };
    ProgressLine shown(line.settings);
    const auto progress = [&](int64_t done) {
      shown.show(fmt::format("{}: {} of {} tokens ", files[i], done, text.tokens.size()));
    };
    const runtime::LoadedModel* model = &loaded;
    CHIMERE_CHECK_OK(
        runtime::predict_text({&model, 1}, text.tokens, loaded.context, use, progress));
  }
  if (trainer.positions() == 0) {
    return invalid_argument(
        "No context of these texts is in the tables; there is nothing to learn.");
  }
  const auto fitted = trainer.fit(static_cast<int>(flags.epochs));
  if (!flags.output.empty()) {
    uint64_t tokenizer = 0;
    std::vector<float> old;
    CHIMERE_TRY(const engram::Counts counts,
                engram::read_counts(flags.tables.front(), tokenizer, old));
    CHIMERE_CHECK_OK(engram::write_table(flags.output, counts, tokenizer, fitted.gate.values()));
  }
  if (line.json) {
    print_json(
        {{"positions", trainer.positions()},
         {"kneser_ney_nats", fitted.before},
         {"fitted_nats", fitted.after},
         {"gate", std::vector<float>(fitted.gate.values().begin(), fitted.gate.values().end())}});
  } else {
    std::cout << fmt::format("{} positions with known contexts: {:.4f} nats, fitted {:.4f}\n{}",
                             trainer.positions(), fitted.before, fitted.after,
                             gate_rows(fitted.gate));
  }
  return {};
}

}  // namespace

void declare_engram_eval(Command& engram, CommandLine& line) {
  const auto flags = std::make_shared<EvalFlags>();
  const auto add = [&](const char* name, const char* help, auto action) {
    Command command = add_command(engram, line, name, help,
                                  [&line, flags, action] { return action(line, *flags); });
    command.option("TABLE", flags->tables, "N-gram tables").required();
    add_settings(command, line,
                 {SettingGroup::kTokenizerCheck, SettingGroup::kModel, SettingGroup::kQuiet});
    return command;
  };
  Command query_command = add("query", "Shows the successors that tables store for a text", query);
  query_command.option("-p,--prompt", flags->text, "The text").required();
  query_command.option("--top", flags->top, "Tokens to show for each context")
      .range(1, std::numeric_limits<int32_t>::max())
      .show_default();
  Command eval_command =
      add("eval",
          "Measures perplexity without tables, with Kneser-Ney weights, and with the learned gate",
          eval);
  eval_command.option("-f,--file", flags->file, "The text; - for standard input").required();
  Command fit_command =
      add("fit", "Learns a gate from texts that are neither in the tables nor in the model", fit);
  fit_command
      .option("-f,--file", flags->file,
              "A text for each table, comma-separated; - for standard input")
      .required();
  fit_command.option("--epochs", flags->epochs, "Passes over the texts")
      .range(1, 10000)
      .show_default();
  fit_command.option("-o,--output", flags->output,
                     "Write the first table with the fitted gate to this file");
}

}  // namespace chimere::app
