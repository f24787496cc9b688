// Sequence breakers of DRY, from text to tokens.
#ifndef CHIMERE_ENGINE_DRY_BREAKERS_H_
#define CHIMERE_ENGINE_DRY_BREAKERS_H_

#include <memory>
#include <span>
#include <string>

#include "sampling/dry.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// A token whose text holds a breaker is one by itself. A breaker may also begin inside a token
/// that ends with its first characters; it continues with the tokens of its other characters. Only
/// the first 40 bytes of a breaker and 20 tokens count; empty ones are left out. Looks at the whole
/// vocabulary: a few dozen milliseconds for 248k tokens.
std::shared_ptr<const sampling::DryBreakers> make_dry_breakers(
    const text::Tokenizer& tokenizer, std::span<const std::string> breakers);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_DRY_BREAKERS_H_
