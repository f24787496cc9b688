// Rules that are ambiguous because they repeat themselves, as repetitions.
#ifndef CHIMERE_CONSTRAINTS_FLATTEN_RECURSION_H_
#define CHIMERE_CONSTRAINTS_FLATTEN_RECURSION_H_

#include <optional>

#include "constraints/grammar.h"

namespace chimere::constraints {

/// The same language with rules like `e ::= e "+" e | "-" e | e "!" | e e | x` written as
/// repetitions, here `y ("+"? y)*` with y = `"-"* x "!"*`: a text of n operands has one reading
/// instead of a number that is exponential in n. Nothing if no rule is like that.
std::optional<Grammar> flatten_recursion(const Grammar& grammar);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_FLATTEN_RECURSION_H_
