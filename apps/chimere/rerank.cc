// chimere rerank: documents by their relevance to a query.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "engine/reranker.h"
#include "json.h"
#include "loading.h"
#include "runtime/loaded_embedder.h"

namespace chimere::app {
namespace {

struct RerankFlags {
  std::string query;
  std::vector<std::string> documents;
  int64_t top = 0;
};

Status rerank(const CommandLine& line, const RerankFlags& flags) {
  if (line.settings.get(settings::kModel).empty()) {
    return invalid_argument("No reranker ships with the program; name one with -m.");
  }
  std::vector<std::string> documents = flags.documents;
  if (documents.empty()) {
    CHIMERE_TRY(const std::string input, read_standard_input());
    documents = lines_of(input);
  }
  CHIMERE_TRY(auto file, open_model(line.settings));
  CHIMERE_TRY(
      const runtime::LoadedEmbedder loaded,
      runtime::load_reranker(std::move(file), line.settings, runtime::Runtime(line.settings)));
  std::vector<engine::EmbeddingInput> pairs;
  size_t n_tokens = 0;
  for (const std::string& document : documents) {
    CHIMERE_TRY(auto pair, loaded.pairs.join(*loaded.embedder, flags.query, document));
    n_tokens += pair.tokens.size();
    pairs.push_back(std::move(pair));
  }
  CHIMERE_TRY(const auto logits, loaded.embedder->compute(pairs));
  std::vector<double> scores;
  for (const std::vector<float>& values : logits) scores.push_back(engine::relevance(values));
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (flags.top > 0) order.resize(std::min(order.size(), static_cast<size_t>(flags.top)));
  if (line.json) {
    Json results = Json::array();
    for (const size_t i : order) {
      results.push_back({{"index", i},
                         {"relevance_score", scores[i]},
                         {"logits", logits[i]},
                         {"document", documents[i]}});
    }
    print_json({{"results", results}, {"tokens", n_tokens}});
    return {};
  }
  for (const size_t i : order) {
    std::cout << fmt::format("{:.4f}  {}\n", scores[i], documents[i]);
  }
  return {};
}

}  // namespace

void declare_rerank(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<RerankFlags>();
  Command command = add_command(app, line, "rerank",
                                "Sorts documents by their relevance to a query, with a reranker",
                                [&line, flags] { return rerank(line, *flags); });
  add_settings(command, line,
               {SettingGroup::kModelName, SettingGroup::kDevice, SettingGroup::kThreads,
                SettingGroup::kQuiet});
  command.option("QUERY", flags->query, "The query").required();
  command.option("DOCUMENT", flags->documents,
                 "Documents; without any, the lines of standard input");
  command.option("--top", flags->top, "Print only so many of the best documents")
      .range(int64_t{1}, int64_t{1} << 20);
}

}  // namespace chimere::app
