#include <utility>

#include "protocol/json_text.h"
#include "protocol/responses.h"

namespace chimere::protocol {
namespace {

Json info_json(const EngramInfo& table) {
  return {{"object", "engram"},         {"name", table.name},   {"ngrams", table.ngrams},
          {"contexts", table.contexts}, {"bytes", table.bytes}, {"sources", table.sources}};
}

}  // namespace

std::string engram_response(std::string_view table, int64_t written,
                            std::span<const std::string> refused, int64_t ngrams) {
  return to_text({{"object", "engram.write"},
                  {"table", table},
                  {"written", written},
                  {"refused", refused},
                  {"ngrams", ngrams}});
}

std::string engram_list(std::span<const EngramInfo> tables) {
  Json data = Json::array();
  for (const EngramInfo& table : tables) data.push_back(info_json(table));
  return to_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string engram_info(const EngramInfo& table) { return to_text(info_json(table)); }

std::string engram_deleted(std::string_view name) {
  return to_text({{"object", "engram.deleted"}, {"name", name}, {"deleted", true}});
}

std::string engram_matches(std::string_view table, int64_t tokens,
                           std::span<const EngramMatch> matches) {
  Json list = Json::array();
  for (const EngramMatch& m : matches) {
    list.push_back({{"text", m.text},
                    {"begin", m.begin},
                    {"end", m.end},
                    {"context", m.context},
                    {"count", m.count}});
  }
  return to_text({{"object", "engram.search"},
                  {"table", table},
                  {"tokens", tokens},
                  {"matches", std::move(list)}});
}

std::string engram_predictions(std::string_view table, std::span<const EngramPrediction> tokens) {
  Json list = Json::array();
  for (const EngramPrediction& p : tokens) {
    list.push_back({{"token", p.token},
                    {"text", p.text},
                    {"probability", p.probability},
                    {"count", p.count},
                    {"context", p.context}});
  }
  return to_text(
      {{"object", "engram.predict"}, {"table", table}, {"predictions", std::move(list)}});
}

}  // namespace chimere::protocol
