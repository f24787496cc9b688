// The order in which the properties of an object are written.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_PROPERTY_ORDER_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_PROPERTY_ORDER_H_

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraints/json_schema/expansion.h"
#include "constraints/json_schema/liveness.h"

namespace chimere::constraints::json_schema {

/// The order of declaration: that of "properties", and of the members of constants. The properties
/// of one schema come before those of schemas that it applies to the same object; names that are
/// not declared come when no required property is missing. `expander` and `liveness` must outlive
/// this.
class PropertyOrder {
 public:
  PropertyOrder(Expander& expander, Liveness& liveness)
      : expander_(expander), liveness_(liveness) {}

  /// What may come next in an object of a record.
  struct Next {
    RecordId record = 0;
    bool any = false;             ///< the order does not count
    uint32_t first = 0;           ///< least rank
    uint32_t required = 0;        ///< least rank of the required properties that are missing
    uint64_t missing = 0;         ///< properties that must follow the next one
    std::vector<uint32_t> ranks;  ///< with `missing`: of all keys that are allowed, ascending
  };
  Next next(RecordId record, const ObjectProgress& progress);
  /// Whether a key that is allowed is in order; kNone: one that is not declared. After keys that
  /// are, the object can be completed in order unless minProperties or other conditions that name
  /// no property prevent it.
  bool in_order(const Next& next, const ObjectProgress& progress, Symbol key);

 private:
  using Ranks = std::unordered_map<Symbol, uint32_t>;
  static constexpr uint32_t kUnranked = UINT32_MAX;
  const Ranks& ranks(RecordId record);
  static uint32_t rank_of(const Ranks& ranks, Symbol key);

  Expander& expander_;
  Liveness& liveness_;
  std::unordered_map<RecordId, Ranks> ranks_;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_PROPERTY_ORDER_H_
