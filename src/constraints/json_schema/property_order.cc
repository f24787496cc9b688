#include "constraints/json_schema/property_order.h"

#include <algorithm>

namespace chimere::constraints::json_schema {

const PropertyOrder::Ranks& PropertyOrder::ranks(RecordId record) {
  const auto [found, added] = ranks_.try_emplace(record);
  if (!added) return found->second;
  for (const ScopeId scope : expander_.records().object(record).scopes) {
    for (const Symbol name : expander_.records().object_scope(scope).order) {
      found->second.emplace(name, static_cast<uint32_t>(found->second.size()));
    }
  }
  return found->second;
}

uint32_t PropertyOrder::rank_of(const Ranks& ranks, Symbol key) {
  const auto found = ranks.find(key);
  return found != ranks.end() ? found->second : kUnranked;
}

PropertyOrder::Next PropertyOrder::next(RecordId record, const ObjectProgress& progress) {
  Next out;
  out.record = record;
  const ObjectRecord& object = expander_.records().object(record);
  const Liveness::Keys& keys = liveness_.keys(record);
  const bool others = keys.all_others || keys.others != expander_.arena().none();
  // Without end, other names could be written while a condition waits for one that is refused.
  out.any = others && !object.some.empty();
  if (out.any) return out;
  const Ranks& known = ranks(record);
  for (const Symbol key : progress.seen) {
    const uint32_t rank = rank_of(known, key);
    if (rank != kUnranked) out.first = std::max(out.first, rank + 1);
  }
  out.required = kUnranked;
  for (const Symbol key : object.required) {
    if (std::ranges::binary_search(progress.seen, key)) continue;
    out.required = std::min(out.required, rank_of(known, key));
  }
  const uint64_t count = progress.seen.size() + 1;
  if (others || object.min <= count) return out;
  out.missing = object.min - count;
  const std::vector<Symbol> allowed = liveness_.allowed_keys(record, progress);
  for (const Symbol key : allowed) out.ranks.push_back(rank_of(known, key));
  std::ranges::sort(out.ranks);
  return out;
}

bool PropertyOrder::in_order(const Next& next, const ObjectProgress& progress, Symbol key) {
  if (next.any) return true;
  const Ranks& known = ranks(next.record);
  const uint32_t rank = key != kNone ? rank_of(known, key) : kUnranked;
  if (rank < next.first || rank > next.required) return false;
  const ObjectRecord& object = expander_.records().object(next.record);
  if (!object.dependent.empty()) {
    const std::vector<Symbol> pending = liveness_.pending(object, progress.seen, key);
    const bool late =
        std::ranges::any_of(pending, [&](Symbol other) { return rank_of(known, other) < rank; });
    if (late) return false;
  }
  if (next.missing == 0) return true;
  // Those of the same rank are not declared; the key is one of them.
  const auto after = rank == kUnranked ? std::ranges::lower_bound(next.ranks, rank)
                                       : std::ranges::upper_bound(next.ranks, rank);
  const auto count = static_cast<uint64_t>(next.ranks.end() - after);
  return count >= next.missing + (rank == kUnranked ? 1 : 0);
}

}  // namespace chimere::constraints::json_schema
