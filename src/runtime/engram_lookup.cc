#include "runtime/engram_lookup.h"

#include <algorithm>
#include <map>

namespace chimere::runtime {

Result<std::vector<EngramMatch>> search_engram(const engram::Table& table,
                                               std::span<const int32_t> tokens, int least) {
  std::vector<EngramMatch> out;
  std::vector<engram::Evidence> found;
  for (size_t at = 1; at < tokens.size(); ++at) {
    CHIMERE_CHECK_OK(table.find(tokens.first(at), found));
    const engram::Evidence* known = nullptr;
    float count = 0;
    for (const engram::Evidence& evidence : found) {
      const auto next = std::ranges::find(evidence.top, static_cast<uint32_t>(tokens[at]),
                                          &engram::Counted::token);
      if (evidence.order < least || next == evidence.top.end()) continue;
      known = &evidence;
      count = next->count;
    }
    if (known == nullptr) continue;
    const auto position = static_cast<int64_t>(at);
    if (!out.empty() && out.back().end == position) {
      EngramMatch& match = out.back();
      match.end = position + 1;
      match.context = std::min(match.context, known->order);
      match.count = std::min(match.count, count);
    } else {
      out.push_back({position - known->order, position + 1, known->order, count});
    }
  }
  return out;
}

Result<std::vector<EngramPrediction>> predict_engram(const engram::Table& table,
                                                     std::span<const int32_t> tokens, size_t most) {
  std::vector<engram::Evidence> found;
  CHIMERE_CHECK_OK(table.find(tokens, found));
  std::map<uint32_t, EngramPrediction> by_token;
  double left = 1;  // of the probability, for shorter contexts
  for (auto evidence = found.rbegin(); evidence != found.rend(); ++evidence) {
    if (evidence->total <= 0) continue;
    for (const engram::Counted& c : evidence->top) {
      const auto [entry, first] = by_token.try_emplace(c.token);
      EngramPrediction& prediction = entry->second;
      if (first) prediction = {static_cast<int32_t>(c.token), 0, c.count, evidence->order};
      prediction.probability += left * static_cast<double>(c.left) / evidence->total;
    }
    left *= 1 - static_cast<double>(evidence->left) / evidence->total;
  }
  std::vector<EngramPrediction> out;
  for (const auto& [token, prediction] : by_token) out.push_back(prediction);
  std::ranges::stable_sort(out, std::greater<>(), &EngramPrediction::probability);
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace chimere::runtime
