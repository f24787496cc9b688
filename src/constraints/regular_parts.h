// The parts of a grammar that are regular.
#ifndef CHIMERE_CONSTRAINTS_REGULAR_PARTS_H_
#define CHIMERE_CONSTRAINTS_REGULAR_PARTS_H_

#include <optional>
#include <vector>

#include "base/result.h"
#include "constraints/grammar.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// By node, its language as an expression of the arena if it is regular and not too large or deep
/// to be read as one: literals, characters, patterns, and what is built from them without
/// recursion. Errors: those of the patterns and schemas.
Result<std::vector<std::optional<Regex>>> regular_parts(const Grammar& grammar, RegexArena& arena);

/// An error of a schema's text, with its place.
Error at_place(const Grammar::SchemaPlace& place, Error error);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REGULAR_PARTS_H_
