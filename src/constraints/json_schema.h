// JSON documents that are valid under a JSON Schema, as an automaton over their bytes.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "constraints/machine.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// White space between the tokens of a JSON document: nothing, one space, or a line break and
/// blanks for indentation; never more, so that a model cannot fill its budget with it.
struct JsonWhitespace {
  bool spaces = true;       ///< one space where json.dumps() writes one, and inside of brackets
  bool lines = true;        ///< a line break and up to `max_indent` spaces or tabs
  int32_t max_indent = 64;  ///< at most 250
};

struct JsonSchemaOptions {
  JsonWhitespace whitespace;
  bool assert_formats = true;  ///< false: "format" is an annotation
  /// Whether an object may have other properties than those that its schema lists or requires, if
  /// the schema says nothing of them. Without, every document is still valid, but not every valid
  /// document is a text: a model that may add properties can add them without end.
  bool undeclared_properties = true;
  /// Whether documents are written as programs print them: integers without fraction and exponent
  /// and within 64 bits, numbers in few digits, one style of white space, escapes only where JSON
  /// requires them, properties in the order of their declaration unless other keywords of the
  /// schema require another one. Every document is still valid.
  bool canonical = false;
};

/// A document is a text of the machine exactly when it is valid under the schema, no object in it
/// has a key twice or a property that the options exclude, and its white space is of the permitted
/// kind. Other options leave some of these out.
///
/// Draft 2020-12 and draft 7 (by $schema; older keywords where they are unambiguous). Properties
/// may come in any order. Boolean keywords (allOf, anyOf, oneOf, not, if) are brought into a
/// disjunction of conjunctions for each value, lazily; a frame of an object or array keeps those of
/// its alternatives that still hold.
class JsonSchemaMachine : public Machine {
 public:
  /// `schema` is JSON text; "true" or "{}" is any document, {"type": "object"} JSON mode.
  /// Errors, each with the JSON pointer of the place and the keyword: kInvalidArgument (not JSON,
  /// not a schema, no document is valid), kUnsupported (a keyword or combination that is not
  /// supported, a remote $ref, a budget exceeded).
  static Result<std::unique_ptr<JsonSchemaMachine>> create(std::string_view schema,
                                                           const JsonSchemaOptions& options = {});

  /// An error if a state could not be computed within its budgets: the generation must end with
  /// this error; states created since are kDead.
  Status status() const override = 0;
};

/// The strings that are valid under the schema. `or_null`: with "null" exactly if null is valid.
/// Errors: those of JsonSchemaMachine::create().
Result<Regex> strings_of_schema(RegexArena& arena, std::string_view schema, bool or_null);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_H_
