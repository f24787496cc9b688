// chimere engram build, merge, decay, prune, inspect: commands on n-gram tables without a model.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_amount.h"
#include "base/file_stream.h"
#include "base/stopwatch.h"
#include "command.h"
#include "engram/legacy_table.h"
#include "engram/table.h"
#include "engram_texts.h"
#include "json.h"
#include "loading.h"
#include "runtime/loaded_model.h"
#include "text/fingerprint.h"

namespace chimere::app {
namespace {

struct TableFlags {
  std::vector<std::string> inputs;
  std::string output;
  std::string source;
  std::string date;
  int64_t order = engram::kDefaultOrder;
  double weight = 1;
  double minimum = 0;
  int64_t from_order = 2;
  int64_t version = 2;
  bool special = false;
};

/// "2026-11-22" as days since 1970-01-01; empty: today.
Result<uint16_t> parse_day(const std::string& text) {
  namespace chr = std::chrono;
  chr::sys_days day = chr::floor<chr::days>(chr::system_clock::now());
  if (!text.empty()) {
    int year = 0;
    unsigned month = 0;
    unsigned number = 0;
    char extra = 0;
    const int read = std::sscanf(text.c_str(), "%d-%u-%u%c", &year, &month, &number, &extra);
    const chr::year_month_day date{chr::year(year), chr::month(month), chr::day(number)};
    if (read != 3 || !date.ok() || year < 1970 || year > 2148)
      return invalid_argument("'" + text + "' is no date like 2026-11-22, from 1970 to 2148.");
    day = date;
  }
  return static_cast<uint16_t>(day.time_since_epoch().count());
}

std::string day_text(uint16_t day) {
  return fmt::format("{:%Y-%m-%d}", std::chrono::sys_days(std::chrono::days(day)));
}

/// Merges pairwise, so that every entry is moved only log n times.
Result<engram::Counts> merge_all(std::vector<engram::Counts> all) {
  while (all.size() > 1) {
    std::vector<engram::Counts> halved;
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      CHIMERE_TRY(auto both, engram::Counts::merged(all[i], all[i + 1]));
      halved.push_back(std::move(both));
    }
    if (all.size() % 2 == 1) halved.push_back(std::move(all.back()));
    all = std::move(halved);
  }
  return std::move(all.front());
}

Status report_written(const CommandLine& line, const std::string& path,
                      const engram::Counts& counts, double seconds) {
  const auto contexts = counts.nodes().size() - 1;
  if (line.json) {
    print_json({{"path", path},
                {"order", counts.order()},
                {"contexts", contexts},
                {"ngrams", counts.successors().size()},
                {"seconds", seconds}});
  } else {
    std::cout << fmt::format("{}: {} n-grams after {} contexts of up to {} tokens, {:.2f} s\n",
                             path, counts.successors().size(), contexts, counts.order(), seconds);
  }
  return {};
}

using Documents = std::vector<std::vector<int32_t>>;

Result<Documents> tokens_of(const std::string& path, const text::Tokenizer& tokenizer,
                            bool special) {
  CHIMERE_TRY(const auto texts, read_documents(path));
  Documents documents;
  for (const std::string& text : texts) documents.push_back(tokenizer.encode(text, special));
  return documents;
}

Status build_legacy(const TableFlags& flags, const text::Tokenizer& tokenizer) {
  Documents documents;
  for (const std::string& path : flags.inputs) {
    CHIMERE_TRY(Documents some, tokens_of(path, tokenizer, flags.special));
    std::ranges::move(some, std::back_inserter(documents));
  }
  const auto content = engram::legacy_content(documents, static_cast<uint32_t>(flags.order));
  CHIMERE_TRY(const auto bytes, engram::legacy_bytes(content));
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(flags.output));
  CHIMERE_CHECK_OK(file.write(bytes));
  return file.commit();
}

Status build(const CommandLine& line, const TableFlags& flags) {
  const Stopwatch clock;
  CHIMERE_TRY(const auto file, open_model(line.settings));
  CHIMERE_TRY(const auto tokenizer, runtime::load_tokenizer(*file));
  if (flags.version == 1) return build_legacy(flags, *tokenizer);
  CHIMERE_TRY(const uint16_t day, parse_day(flags.date));
  std::vector<engram::Counts> all;
  for (const std::string& path : flags.inputs) {
    CHIMERE_TRY(const Documents documents, tokens_of(path, *tokenizer, flags.special));
    engram::Occurrence occurrence;
    occurrence.source =
        flags.source.empty() ? std::filesystem::path(path).filename().string() : flags.source;
    occurrence.day = day;
    occurrence.weight = static_cast<uint32_t>(std::lround(flags.weight * engram::kOne));
    CHIMERE_TRY(auto counts,
                engram::Counts::of(documents, static_cast<int>(flags.order), occurrence));
    all.push_back(std::move(counts));
  }
  CHIMERE_TRY(engram::Counts counts, merge_all(std::move(all)));
  if (flags.minimum > 0) {
    counts = counts.pruned(static_cast<uint32_t>(std::lround(flags.minimum * engram::kOne)),
                           static_cast<int>(flags.from_order));
  }
  CHIMERE_CHECK_OK(engram::write_table(flags.output, counts, text::fingerprint(*tokenizer), {}));
  return report_written(line, flags.output, counts, clock.seconds());
}

Status merge(const CommandLine& line, const TableFlags& flags) {
  const Stopwatch clock;
  std::vector<engram::Counts> all;
  uint64_t tokenizer = 0;
  std::vector<float> gate;
  for (const std::string& path : flags.inputs) {
    uint64_t its = 0;
    std::vector<float> its_gate;
    CHIMERE_TRY(auto counts, engram::read_counts(path, its, its_gate));
    if (!all.empty() && its != tokenizer) {
      return invalid_argument("The tables '" + flags.inputs.front() + "' and '" + path +
                              "' belong to different tokenizers; their ids cannot be merged.");
    }
    tokenizer = its;
    if (gate.empty()) gate = its_gate;  // the first table's that has one
    all.push_back(std::move(counts));
  }
  CHIMERE_TRY(const engram::Counts counts, merge_all(std::move(all)));
  CHIMERE_CHECK_OK(engram::write_table(flags.output, counts, tokenizer, gate));
  return report_written(line, flags.output, counts, clock.seconds());
}

/// Reads a table, changes it, and writes it to --output or over the old file.
template <typename Change>
Status rewrite(const CommandLine& line, const TableFlags& flags, const Change& change) {
  const Stopwatch clock;
  uint64_t tokenizer = 0;
  std::vector<float> gate;
  const std::string& path = flags.inputs.front();
  CHIMERE_TRY(const engram::Counts before, engram::read_counts(path, tokenizer, gate));
  const engram::Counts after = change(before);
  const std::string& output = flags.output.empty() ? path : flags.output;
  CHIMERE_CHECK_OK(engram::write_table(output, after, tokenizer, gate));
  return report_written(line, output, after, clock.seconds());
}

Status decay(const CommandLine& line, const TableFlags& flags) {
  CHIMERE_TRY(const uint16_t today, parse_day(flags.date));
  return rewrite(line, flags, [&](const engram::Counts& c) { return c.decayed(today); });
}

Status prune(const CommandLine& line, const TableFlags& flags) {
  const auto least = static_cast<uint32_t>(std::lround(flags.minimum * engram::kOne));
  return rewrite(line, flags, [&](const engram::Counts& c) {
    return c.pruned(least, static_cast<int>(flags.from_order));
  });
}

Status inspect(const CommandLine& line, const TableFlags& flags) {
  CHIMERE_TRY(const auto table, engram::open_table(flags.inputs.front(), {}));
  const engram::TableInfo& info = table->info();
  Json document = {
      {"path", info.path},
      {"version", info.version},
      {"order", info.order},
      {"tokenizer", info.tokenizer == 0 ? Json() : Json(fmt::format("{:016x}", info.tokenizer))},
      {"contexts", info.contexts},
      {"ngrams", info.successors},
      {"bytes", info.bytes},
      {"filter_bytes", info.filter_bytes},
      {"as_of", info.as_of == 0 ? Json() : Json(day_text(info.as_of))},
      {"contexts_by_order", info.by_order},
      {"sources", info.sources},
      {"own_gate", !info.gate.empty()}};
  Json discounts = Json::array();
  for (const engram::Discounts& d : info.discounts) discounts.push_back({d.once, d.twice, d.more});
  document["discounts"] = std::move(discounts);
  if (line.json) {
    print_json(document);
    return {};
  }
  std::cout << fmt::format(
      "{}  (version {}, {})\n  tokenizer {}\n  {} n-grams after {} contexts of up to {} tokens, "
      "filter {}\n",
      info.path, info.version, human_bytes(static_cast<double>(info.bytes)),
      info.tokenizer == 0 ? "not named" : document["tokenizer"].get<std::string>(), info.successors,
      info.contexts, info.order, human_bytes(static_cast<double>(info.filter_bytes)));
  for (size_t k = 0; k < info.by_order.size(); ++k) {
    const engram::Discounts& d = info.discounts[k];
    std::cout << fmt::format("  {} tokens: {:>10} contexts, discounts {:.3f} {:.3f} {:.3f}\n", k,
                             info.by_order[k], d.once, d.twice, d.more);
  }
  if (info.as_of != 0) std::cout << "  weights as of " << day_text(info.as_of) << '\n';
  for (const std::string& source : info.sources) std::cout << "  source " << source << '\n';
  return {};
}

}  // namespace

void declare_engram(Command& app, CommandLine& line) {
  Command tables = app.group(
      "engram",
      "Makes n-gram tables, counts from your texts with which a model writes more like them");
  const auto add = [&](const char* name, const char* help, auto action) {
    const auto flags = std::make_shared<TableFlags>();
    Command command = add_command(tables, line, name, help,
                                  [&line, flags, action] { return action(line, *flags); });
    return std::pair(command, flags);
  };
  const auto prune_flags = [](Command& command, const std::shared_ptr<TableFlags>& flags) {
    Option minimum = command.option("--min", flags->minimum, "Drop n-grams with smaller counts");
    minimum.range(0.0, 1e6);
    command
        .option("--from-order", flags->from_order,
                "Only with contexts of at least this many tokens")
        .range(0, engram::kMaxOrder)
        .show_default();
    return minimum;
  };
  {
    auto [command, flags] = add("build", "Makes a table from texts, folders and chat logs", build);
    command
        .option("TEXT", flags->inputs, "Files, folders, chat logs (.jsonl); - for standard input")
        .required();
    command.option("-o,--output", flags->output, "The table").required();
    command.option("--order", flags->order, "Tokens of the longest context")
        .range(1, engram::kMaxOrder)
        .show_default();
    command.option("--source", flags->source,
                   "A name for the origin of the texts; default: their file names");
    command.option("--date", flags->date, "The date of the texts, like 2026-11-22; default: today");
    command.option("--weight", flags->weight, "Count of one occurrence")
        .range(1.0 / engram::kOne, 1e4)
        .show_default();
    command.flag("--special", flags->special,
                 "Control tokens such as <|im_end|> in the texts are those tokens: for prompts and "
                 "answers as the model reads and writes them");
    command.option("--table-version", flags->version, "2, or 1: a single order, for older programs")
        .range(1, 2)
        .show_default();
    prune_flags(command, flags);
    add_settings(command, line, {SettingGroup::kModelName, SettingGroup::kQuiet});
  }
  {
    auto [command, flags] = add("merge", "Sums tables into one", merge);
    command.option("TABLE", flags->inputs, "Tables of version 2").required();
    command.option("-o,--output", flags->output, "The table").required();
  }
  {
    auto [command, flags] =
        add("decay", "Halves counts older than 30 days, drops those older than 90", decay);
    command.option("TABLE", flags->inputs, "A table of version 2").required().one_value();
    command.option("-o,--output", flags->output, "The new table; default: replace the old one");
    command.option("--date", flags->date, "The current date, like 2026-11-22; default: today");
  }
  {
    auto [command, flags] = add("prune", "Drops rare n-grams", prune);
    command.option("TABLE", flags->inputs, "A table of version 2").required().one_value();
    command.option("-o,--output", flags->output, "The new table; default: replace the old one");
    prune_flags(command, flags).required();
  }
  {
    auto [command, flags] = add("inspect", "Shows what a table holds", inspect);
    command.option("TABLE", flags->inputs, "A table").required().one_value();
  }
  declare_engram_eval(tables, line);
}

}  // namespace chimere::app
