// Objects that have the properties which their schema declares, and no others.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_DECLARED_PROPERTIES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_DECLARED_PROPERTIES_H_

#include <unordered_map>

#include "constraints/json_schema/alternatives.h"
#include "constraints/json_schema/expansion.h"
#include "constraints/json_schema/liveness.h"

namespace chimere::constraints::json_schema {

/// Records are looked at one by one, after oneOf, allOf, if and so on are resolved: a document of a
/// closed record is one of the record, whatever else the schema says. `expander` and `liveness`
/// must outlive this.
class DeclaredProperties {
 public:
  DeclaredProperties(Expander& expander, Liveness& liveness)
      : expander_(expander), liveness_(liveness) {}

  /// The record with the properties that its schemas list or require and no others. The record
  /// itself if it lists none, says something of others (additionalProperties, propertyNames,
  /// unevaluatedProperties), or has no object without them.
  RecordId closed(RecordId record);

 private:
  RecordId find(RecordId id);

  Expander& expander_;
  Liveness& liveness_;
  std::unordered_map<RecordId, RecordId> closed_;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_DECLARED_PROPERTIES_H_
