#include "constraints/json_schema/declared_properties.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace chimere::constraints::json_schema {

RecordId DeclaredProperties::closed(RecordId record) {
  const auto [found, added] = closed_.try_emplace(record, record);
  if (added) found->second = find(record);
  return found->second;
}

RecordId DeclaredProperties::find(RecordId id) {
  Records& records = expander_.records();
  ObjectRecord record = records.object(id);
  if (!record.names.empty()) return id;
  ObjectScope all;
  all.rest = kNothing;
  all.evaluates = false;
  for (const ScopeId scope : record.scopes) {
    const ObjectScope& at = records.object_scope(scope);
    if (at.rest != kAnything || at.rest_evaluates || !at.covers.empty()) return id;
    if (!at.evaluates) continue;  // what a negation says of names declares nothing
    for (const auto& [name, goal] : at.named) all.named.emplace_back(name, kAnything);
    for (const auto& [names, goal] : at.patterns) {
      if (std::ranges::find(all.patterns, std::pair(names, kAnything)) == all.patterns.end()) {
        all.patterns.emplace_back(names, kAnything);
      }
    }
  }
  if (all.named.empty()) return id;
  for (const Symbol name : record.required) all.named.emplace_back(name, kAnything);
  for (const auto& [key, names] : record.dependent) {
    for (const Symbol name : names) all.named.emplace_back(name, kAnything);
  }
  std::ranges::sort(all.named);
  all.named.erase(std::ranges::unique(all.named).begin(), all.named.end());
  record.scopes.push_back(records.object_scope(std::move(all)));
  std::ranges::sort(record.scopes);
  const RecordId closed = records.object(std::move(record));
  const std::vector<Symbol> none;
  return liveness_.completable(closed, {none, 0, &none}) ? closed : id;
}

}  // namespace chimere::constraints::json_schema
