// Grammars in llama.cpp's GBNF format.
#ifndef CHIMERE_CONSTRAINTS_GBNF_H_
#define CHIMERE_CONSTRAINTS_GBNF_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "constraints/grammar.h"

namespace chimere::constraints {

/// The token with a text like <tag>; -1: none.
using FindToken = std::function<int32_t(std::string_view)>;

/// Reads rules (`name ::= ...`) of literals, classes of characters, `.`, groups, alternatives, the
/// repetitions * + ? {n} {n,} {n,m}, comments (#), and control tokens as <[id]> or <text>. The
/// root is the rule `root`. Errors: kInvalidArgument, with line and column; kUnsupported for
/// negated tokens.
Result<Grammar> parse_gbnf(std::string_view text, const FindToken& find_token);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_GBNF_H_
