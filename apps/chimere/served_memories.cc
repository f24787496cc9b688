#include "served_memories.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engram_lookup.h"

namespace chimere::app {
namespace {

Result<protocol::EngramInfo> info_of(runtime::EngramMemories& memories, const std::string& owner,
                                     const std::string& name) {
  CHIMERE_TRY(const auto table, memories.table(owner, name));
  const engram::TableInfo& info = table->info();
  return protocol::EngramInfo{name, static_cast<int64_t>(info.successors),
                              static_cast<int64_t>(info.contexts), static_cast<int64_t>(info.bytes),
                              info.sources};
}

}  // namespace

serving::EngramTables served_memories(runtime::EngramMemories& memories,
                                      const text::Tokenizer& tokenizer) {
  serving::EngramTables out;
  out.list = [&memories](const std::string& owner) -> Result<std::vector<protocol::EngramInfo>> {
    std::vector<protocol::EngramInfo> tables;
    CHIMERE_TRY(const auto names, memories.list(owner));
    for (const std::string& name : names) {
      CHIMERE_TRY(tables.emplace_back(), info_of(memories, owner, name));
    }
    return tables;
  };
  out.info = [&memories](const std::string& owner, const std::string& name) {
    return info_of(memories, owner, name);
  };
  out.decay = [&memories](const std::string& owner, const std::string& name) {
    return memories.decay(owner, name);
  };
  out.erase = [&memories](const std::string& owner, const std::string& name) {
    return memories.erase(owner, name);
  };
  out.search = [&memories, &tokenizer](
                   const std::string& owner, const std::string& name,
                   std::span<const int32_t> tokens,
                   int64_t least) -> Result<std::vector<protocol::EngramMatch>> {
    CHIMERE_TRY(const auto table, memories.table(owner, name));
    CHIMERE_TRY(const auto found, runtime::search_engram(*table, tokens, static_cast<int>(least)));
    std::vector<protocol::EngramMatch> matches;
    for (const runtime::EngramMatch& m : found) {
      const auto part =
          tokens.subspan(static_cast<size_t>(m.begin), static_cast<size_t>(m.end - m.begin));
      matches.push_back({tokenizer.decode(part, true), m.begin, m.end, m.context, m.count});
    }
    return matches;
  };
  out.predict = [&memories, &tokenizer](
                    const std::string& owner, const std::string& name,
                    std::span<const int32_t> tokens,
                    int64_t most) -> Result<std::vector<protocol::EngramPrediction>> {
    CHIMERE_TRY(const auto table, memories.table(owner, name));
    CHIMERE_TRY(const auto found,
                runtime::predict_engram(*table, tokens, static_cast<size_t>(most)));
    std::vector<protocol::EngramPrediction> predictions;
    for (const runtime::EngramPrediction& p : found) {
      predictions.push_back(
          {p.token, tokenizer.token_bytes(p.token, true), p.probability, p.count, p.context});
    }
    return predictions;
  };
  return out;
}

}  // namespace chimere::app
