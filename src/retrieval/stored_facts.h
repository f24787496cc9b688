// The keys of a collection's facts and the names of its kinds of sources, as they are stored.
#ifndef CHIMERE_RETRIEVAL_STORED_FACTS_H_
#define CHIMERE_RETRIEVAL_STORED_FACTS_H_

#include <optional>
#include <string>
#include <string_view>

#include "retrieval/collection_types.h"

namespace chimere::retrieval {

namespace facts {
inline constexpr const char* kEmbedder = "embedder";      ///< identity of the vectors' embedder
inline constexpr const char* kGeneration = "generation";  ///< counts the commits that change chunks
inline constexpr const char* kRules = "rules";            ///< version of readers and chunk rules
}  // namespace facts

/// The kind of the source of documents that were given with their text.
inline constexpr std::string_view kGivenSource = "given";

struct SourceKindName {
  Source::Kind kind;
  std::string_view name;
};
inline constexpr SourceKindName kSourceKinds[] = {
    {Source::Kind::kPath, "path"},
    {Source::Kind::kManual, "manual"},
    {Source::Kind::kUrl, "url"},
};

inline std::string_view name_of(Source::Kind kind) {
  for (const SourceKindName& row : kSourceKinds)
    if (row.kind == kind) return row.name;
  return "";
}
inline std::optional<Source::Kind> kind_of(std::string_view name) {
  for (const SourceKindName& row : kSourceKinds)
    if (row.name == name) return row.kind;
  return std::nullopt;
}

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_STORED_FACTS_H_
