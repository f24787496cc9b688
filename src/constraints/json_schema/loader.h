// JSON to schema nodes.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_LOADER_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_LOADER_H_

#include "base/result.h"
#include "constraints/json_schema/node.h"
#include "constraints/json_schema/values.h"
#include "constraints/regex.h"

namespace chimere::constraints::json_schema {

struct LoadOptions {
  bool assert_formats = true;  ///< false: "format" is an annotation
};

/// Loads the schemas that are reachable from `root`, without recursion. Annotations and unknown
/// keywords are ignored, as the specification says. Errors: kInvalidArgument for a malformed
/// keyword, kUnsupported for one that is not supported; with the JSON pointer.
Result<Schemas> load_schemas(Values& values, ValueId root, RegexArena& arena,
                             const LoadOptions& options);

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_LOADER_H_
