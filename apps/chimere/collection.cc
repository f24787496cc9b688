// chimere collection: documents that can be searched.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_amount.h"
#include "base/stopwatch.h"
#include "collection_models.h"
#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "progress_line.h"
#include "retrieval/collections.h"
#include "retrieval/stored_facts.h"

namespace chimere::app {
namespace {

using retrieval::Collections;

struct CollectionFlags {
  std::string name;
  std::vector<std::string> sources;
  std::vector<std::string> allowed_addresses;
  bool manual = false;
  std::string query;
  std::string by = "both";
  retrieval::SearchOptions search;
  bool whole = false;
};

Json to_json(const retrieval::UpdateReport& report, double seconds) {
  return {{"added", report.added},         {"changed", report.changed},
          {"unchanged", report.unchanged}, {"removed", report.removed},
          {"embedded", report.embedded},   {"skipped", report.n_skipped},
          {"messages", report.skipped},    {"seconds", seconds}};
}

/// Options that show progress, and stop at Ctrl-C. `line` must outlive them.
retrieval::UpdateOptions update_options(ProgressLine& progress, const InterruptScope& interrupt,
                                        const Stopwatch& watch, double& next,
                                        const CollectionFlags& flags) {
  retrieval::UpdateOptions options;
  options.allowed_addresses = flags.allowed_addresses;
  options.interrupted = [&interrupt] { return interrupt.interrupted(); };
  options.progress = [&progress, &watch, &next](const retrieval::Progress& p) {
    constexpr double kPause = 0.2;
    if (watch.seconds() < next) return;
    next = watch.seconds() + kPause;
    progress.show(fmt::format("{} {} of {}   ", p.step, p.done, p.total));
  };
  return options;
}

Status print_report(const CommandLine& line, Collections& collections, const std::string& name,
                    const retrieval::UpdateReport& report, double seconds) {
  CHIMERE_TRY(const auto info, collections.info({.name = name, .owner = ""}));
  if (line.json) {
    Json document = to_json(report, seconds);
    document["name"] = name;
    document["documents"] = info.documents;
    document["chunks"] = info.chunks;
    print_json(document);
    return {};
  }
  for (const std::string& why : report.skipped) std::cerr << why << '\n';
  if (report.n_skipped > static_cast<int64_t>(report.skipped.size())) {
    std::cerr << fmt::format("{} more documents could not be read.\n",
                             report.n_skipped - static_cast<int64_t>(report.skipped.size()));
  }
  std::cout << fmt::format(
      "{}: {} documents in {} chunks; {} added, {} changed, {} removed, {} unchanged, {} skipped "
      "in "
      "{:.1f} s\n",
      name, info.documents, info.chunks, report.added, report.changed, report.removed,
      report.unchanged, report.n_skipped, seconds);
  return {};
}

Status add(const CommandLine& line, const CollectionFlags& flags) {
  std::vector<retrieval::Source> sources;
  for (const std::string& place : flags.sources) {
    const bool url = place.starts_with("http://") || place.starts_with("https://");
    sources.push_back(
        {url ? retrieval::Source::Kind::kUrl : retrieval::Source::Kind::kPath, place});
  }
  if (flags.manual) sources.push_back({retrieval::Source::Kind::kManual, ""});
  if (sources.empty())
    return invalid_argument("Say what to add: files, folders, http addresses or --man.");
  CHIMERE_TRY(const auto collections, open_collections(line.settings));
  const Stopwatch watch;
  Result<retrieval::UpdateReport> report = retrieval::UpdateReport{};
  {
    const InterruptScope interrupt;
    ProgressLine progress(line.settings);
    double next = 0;
    report = collections->add({.name = flags.name, .owner = ""}, sources,
                              update_options(progress, interrupt, watch, next, flags));
  }
  if (!report.ok()) return report.error();
  return print_report(line, *collections, flags.name, *report, watch.seconds());
}

Status update(const CommandLine& line, const CollectionFlags& flags) {
  CHIMERE_TRY(const auto collections, open_collections(line.settings));
  const Stopwatch watch;
  Result<retrieval::UpdateReport> report = retrieval::UpdateReport{};
  {
    const InterruptScope interrupt;
    ProgressLine progress(line.settings);
    double next = 0;
    report = collections->update({.name = flags.name, .owner = ""},
                                 update_options(progress, interrupt, watch, next, flags));
  }
  if (!report.ok()) return report.error();
  return print_report(line, *collections, flags.name, *report, watch.seconds());
}

/// The collections without models.
Result<std::unique_ptr<Collections>> plain_collections(const Settings& settings) {
  CHIMERE_TRY(std::string folder, collections_folder(settings));
  return std::make_unique<Collections>(std::move(folder), nullptr, nullptr);
}

Json to_json(const retrieval::CollectionInfo& info) {
  Json sources = Json::array();
  for (const retrieval::Source& source : info.sources) {
    sources.push_back({{"kind", retrieval::name_of(source.kind)}, {"place", source.place}});
  }
  return {{"name", info.id.name},      {"documents", info.documents},
          {"chunks", info.chunks},     {"chunks_without_vector", info.without_vector},
          {"embedder", info.embedder}, {"bytes", info.bytes},
          {"sources", sources}};
}

Status list_collections(const CommandLine& line) {
  CHIMERE_TRY(const auto collections, plain_collections(line.settings));
  CHIMERE_TRY(const auto found, collections->list());
  if (line.json) {
    Json out = Json::array();
    for (const auto& info : found) out.push_back(to_json(info));
    print_json(out);
    return {};
  }
  if (found.empty()) {
    std::cerr << "There is no collection yet; `chimere collection add NAME PATH` makes one.\n";
    return {};
  }
  size_t width = 4;
  for (const auto& info : found) width = std::max(width, info.id.name.size());
  std::cout << fmt::format("{:{}}  {:>9}  {:>9}  {:>10}\n", "NAME", width, "DOCUMENTS", "CHUNKS",
                           "SIZE");
  for (const auto& info : found) {
    std::cout << fmt::format("{:{}}  {:>9}  {:>9}  {:>10}\n", info.id.name, width, info.documents,
                             info.chunks, human_bytes(static_cast<double>(info.bytes)));
  }
  return {};
}

Status remove(const CommandLine& line, const CollectionFlags& flags) {
  CHIMERE_TRY(const auto collections, plain_collections(line.settings));
  CHIMERE_CHECK_OK(collections->remove({.name = flags.name, .owner = ""}));
  if (line.json) print_json({{"removed", flags.name}});
  return {};
}

/// The beginning of a text on one line, of about `most` bytes; ends in "..." if there is more.
std::string shorten_to_line(const std::string& text, size_t most) {
  std::string out;
  bool space = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t';
    if (blank && !space && !out.empty()) out += ' ';
    if (!blank) out += c;
    space = blank;
    if (out.size() >= most && (static_cast<unsigned char>(c) & 0xc0U) != 0x80) return out + "...";
  }
  return out;
}

Json to_json(const retrieval::Passage& passage) {
  const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
  return {{"id", passage.id},
          {"document", passage.document},
          {"title", passage.title},
          {"heading", passage.heading},
          {"line", passage.line},
          {"text", passage.text},
          {"score", passage.score},
          {"bm25", number(passage.words)},
          {"similarity", number(passage.similarity)},
          {"relevance", number(passage.relevance)}};
}

void print_found(const CommandLine& line, const retrieval::Found& found, bool whole,
                 double seconds) {
  if (line.json) {
    Json passages = Json::array();
    for (const auto& passage : found.passages) passages.push_back(to_json(passage));
    print_json({{"passages", passages},
                {"by_vectors", found.by_vectors},
                {"reranked", found.reranked},
                {"note", found.note},
                {"seconds", seconds}});
    return;
  }
  if (!found.note.empty()) std::cerr << found.note << '\n';
  if (found.passages.empty()) std::cerr << "Nothing in the collection fits.\n";
  for (const auto& passage : found.passages) {
    constexpr size_t kLongestText = 300;
    std::cout << fmt::format("{:.3f}  {}{}{}\n", passage.score, passage.document,
                             passage.place().empty() ? "" : ": ", passage.place());
    std::cout << fmt::format("       {}\n",
                             whole ? passage.text : shorten_to_line(passage.text, kLongestText));
  }
}

Status search(const CommandLine& line, const CollectionFlags& flags) {
  retrieval::SearchOptions options = flags.search;
  options.words = flags.by != "vectors";
  options.vectors = flags.by != "words";
  CHIMERE_TRY(const auto collections, options.vectors || options.rerank
                                          ? open_collections(line.settings)
                                          : plain_collections(line.settings));
  std::vector<std::string> queries = {flags.query};
  if (flags.query.empty()) {
    CHIMERE_TRY(const std::string input, read_standard_input());
    queries = lines_of(input);
  }
  for (const std::string& query : queries) {
    const Stopwatch watch;
    CHIMERE_TRY(const retrieval::Found found,
                collections->search({.name = flags.name, .owner = ""}, query, options));
    print_found(line, found, flags.whole, watch.seconds());
  }
  return {};
}

}  // namespace

void declare_collection(Command& app, CommandLine& line) {
  Command group = app.group("collection", "Collections of documents: add, search, keep up to date");
  const auto flags = std::make_shared<CollectionFlags>();
  const auto named = [&line, flags](Command& command) {
    command.option("NAME", flags->name, "The collection's name").required();
    add_settings(command, line, {SettingGroup::kCollections, SettingGroup::kQuiet});
  };
  const auto fetching = [flags](Command& command) {
    command
        .option("--allow-address", flags->allowed_addresses,
                "IP addresses that pages may be fetched from although they are not public, "
                "comma-separated")
        .separator(',');
  };
  const auto computing = [&line](Command& command) {
    add_settings(command, line,
                 {SettingGroup::kModelFolder, SettingGroup::kDevice, SettingGroup::kThreads});
  };

  Command adding = add_command(group, line, "add", "Adds documents to a collection, or makes one",
                               [&line, flags] { return add(line, *flags); });
  named(adding);
  adding.option(
      "SOURCE", flags->sources,
      "Files, and folders with all below them: text, Markdown, HTML, manual pages, source "
      "code, archives of these");
  adding.flag("--man", flags->manual, "Add the manual pages installed on this machine");
  fetching(adding);
  computing(adding);

  Command updating = add_command(
      group, line, "update", "Reads what changed in a collection's sources, removes what is gone",
      [&line, flags] { return update(line, *flags); });
  named(updating);
  fetching(updating);
  computing(updating);

  Command listing = add_command(group, line, "list", "Lists the collections",
                                [&line] { return list_collections(line); });
  add_settings(listing, line, {SettingGroup::kCollections});

  Command removing = add_command(group, line, "rm", "Removes a collection; its sources stay",
                                 [&line, flags] { return remove(line, *flags); });
  named(removing);

  Command searching = add_command(group, line, "search", "Finds passages in a collection",
                                  [&line, flags] { return search(line, *flags); });
  named(searching);
  searching.option("QUERY", flags->query,
                   "A question, or words; without it, each line of standard input is one");
  searching.option("--by", flags->by, "What to search by: words (BM25), vectors, or both")
      .one_of({"both", "words", "vectors"})
      .show_default();
  searching.option("-n,--count", flags->search.count, "Most passages")
      .range(1, 1000)
      .show_default();
  searching
      .option("--vectors-weight", flags->search.vectors_weight,
              "Weight of the search by vectors beside that by words; more suits larger embedding "
              "models than the shipped one")
      .range(0.001, 1000)
      .show_default();
  searching.flag("--whole", flags->whole, "Print whole passages, not their beginnings");
  computing(searching);
}

}  // namespace chimere::app
