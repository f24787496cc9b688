// Tokens that a constraint leaves no choice about, as drafts.
#ifndef CHIMERE_CONSTRAINTS_FORCED_TOKENS_H_
#define CHIMERE_CONSTRAINTS_FORCED_TOKENS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "constraints/constraint.h"
#include "text/tokenizer.h"

namespace chimere::constraints {

/// Most bytes of text that canonical_tokens() looks at: drafts are few.
inline constexpr size_t kForcedBytes = 96;

/// Up to `limit` tokens of `forced`, which is Matcher::forced() or Matcher::expected(): those that
/// the tokenizer gives for the whole text whatever follows. If the tokenizer would have divided the
/// text so far in another way, had it known `forced`, as it divides `forced` alone. `tokens`: those
/// of the context, the last ones accepted by `matcher`; about 16 suffice. Takes some encodings of
/// short texts.
std::vector<int32_t> canonical_tokens(Matcher& matcher, const text::Tokenizer& tokenizer,
                                      std::span<const int32_t> tokens, std::string_view forced,
                                      size_t limit);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_FORCED_TOKENS_H_
