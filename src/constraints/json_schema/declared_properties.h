// Objects that have the properties which their schema lists, and no others.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_DECLARED_PROPERTIES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_DECLARED_PROPERTIES_H_

#include "constraints/json_schema/node.h"

namespace chimere::constraints::json_schema {

/// Sets `additionalProperties` to false where a schema lists properties and says nothing of others.
/// Every document that is valid afterwards was valid before. A schema stays as it is where others
/// apply to the same object (allOf, $ref beside keywords, if, dependentSchemas, patternProperties),
/// where fewer valid values could make a document valid (not, oneOf, if, contains), and where it
/// requires names that it does not list; so does a whole document with unevaluatedProperties.
void refuse_undeclared_properties(Schemas& schemas);

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_DECLARED_PROPERTIES_H_
