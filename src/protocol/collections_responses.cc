#include <algorithm>
#include <utility>

#include "protocol/collections.h"
#include "protocol/json_text.h"

namespace chimere::protocol {
namespace {

Json summary_json(const CollectionSummary& info) {
  return {{"object", "collection"},
          {"name", info.name},
          {"documents", info.documents},
          {"chunks", info.chunks},
          {"chunks_without_vector", info.without_vector},
          {"embedder", info.embedder},
          {"bytes", info.bytes}};
}

Json passage_json(const CollectionPassage& p) {
  const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
  return {{"id", p.id},
          {"document", p.document},
          {"title", p.title},
          {"heading", p.heading},
          {"line", p.line},
          {"place", p.place},
          {"text", p.text},
          {"score", p.score},
          {"bm25", number(p.bm25)},
          {"similarity", number(p.similarity)},
          {"relevance", number(p.relevance)}};
}

}  // namespace

ApiError from_collections(const Error& error) {
  switch (error.code) {
    case Error::Code::kNotFound:
      return {"collection_not_found", error.message, "collection"};
    case Error::Code::kInvalidArgument:
    case Error::Code::kInvalidData:
    case Error::Code::kUnsupported:
      return bad_field(error.message, "");
    case Error::Code::kCancelled:
      return {"cancelled", error.message};
    default:
      return {"collection_failed", error.message};
  }
}

std::string collection_list(std::span<const CollectionSummary> collections) {
  Json data = Json::array();
  for (const CollectionSummary& info : collections) data.push_back(summary_json(info));
  return to_text({{"object", "list"}, {"data", std::move(data)}});
}

std::string collection_info(const CollectionSummary& info) { return to_text(summary_json(info)); }

std::string collection_with_documents(const CollectionSummary& info,
                                      std::span<const CollectionDocument> documents, int64_t most) {
  Json out = summary_json(info);
  Json list = Json::array();
  const auto n = std::min(documents.size(), static_cast<size_t>(std::max<int64_t>(most, 0)));
  for (const CollectionDocument& d : documents.first(n)) {
    list.push_back({{"name", d.name}, {"title", d.title}, {"chunks", d.chunks}});
  }
  out["data"] = std::move(list);
  return to_text(out);
}

std::string collection_report(std::string_view name, const CollectionReport& report) {
  return to_text({{"object", "collection.added"},
                  {"name", name},
                  {"added", report.added},
                  {"changed", report.changed},
                  {"unchanged", report.unchanged},
                  {"embedded", report.embedded},
                  {"skipped", report.skipped}});
}

std::string collection_matches(std::string_view name, const CollectionMatches& found) {
  Json list = Json::array();
  for (const CollectionPassage& p : found.passages) list.push_back(passage_json(p));
  return to_text({{"object", "collection.search"},
                  {"name", name},
                  {"data", std::move(list)},
                  {"by_vectors", found.by_vectors},
                  {"reranked", found.reranked},
                  {"note", found.note}});
}

std::string collection_deleted(std::string_view name, std::string_view document) {
  Json out = {{"object", "collection.deleted"}, {"name", name}};
  if (!document.empty()) out["document"] = document;
  out["deleted"] = true;
  return to_text(out);
}

}  // namespace chimere::protocol
