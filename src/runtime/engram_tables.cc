#include "runtime/engram_tables.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sampling/log_softmax.h"
#include "text/fingerprint.h"

namespace chimere::runtime {

std::vector<std::string> split_paths(std::string_view list) {
  std::vector<std::string> paths;
  while (!list.empty()) {
    const std::string_view path = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), path.size() + 1));
    if (!path.empty()) paths.emplace_back(path);
  }
  return paths;
}

Result<engram::Memory::Tables> open_tables(std::span<const std::string> paths,
                                           const Settings& settings,
                                           const text::Tokenizer& tokenizer) {
  engram::Memory::Tables tables;
  if (paths.empty()) return tables;
  const engram::OpenOptions options{text::fingerprint(tokenizer),
                                    settings.get(settings::kAssumeTokenizer)};
  for (const std::string& path : paths) {
    CHIMERE_TRY(auto table, engram::open_table(path, options));
    tables.push_back(std::move(table));
  }
  return tables;
}

engram::Gating gating_of(const Settings& settings) {
  return settings.get(settings::kEngramGate) == "always" ? engram::Gating::kKneserNey
                                                         : engram::Gating::kLearned;
}

Result<engram::ModelPrediction> prediction_of(LogitsRow logits) {
  CHIMERE_TRY(const auto largest, sampling::find_largest(logits));
  const auto d = sampling::summarise(logits, largest.value);
  return engram::ModelPrediction{logits, d.log_sum, d.entropy, largest.id,
                                 static_cast<double>(largest.value) - d.log_sum};
}

double mixed_probability(const engram::ModelPrediction& prediction,
                         std::span<const engram::Share> shares, int32_t token) {
  double taken = 0;
  double own = 0;
  for (const engram::Share& s : shares) {
    taken += static_cast<double>(s.mass);
    if (s.token == static_cast<uint32_t>(token)) own = static_cast<double>(s.mass);
  }
  return (1 - taken) * std::exp(prediction.log_probability(static_cast<uint32_t>(token))) + own;
}

}  // namespace chimere::runtime
