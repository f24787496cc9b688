// DRY sequence breakers: conversion from text to tokens.
#ifndef CHIMERE_ENGINE_DRY_BREAKERS_H_
#define CHIMERE_ENGINE_DRY_BREAKERS_H_

#include <memory>
#include <span>
#include <string>

#include "sampling/dry.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// A token whose text contains a breaker is a breaker by itself. A breaker may also begin inside a
/// token that ends with its first characters; it then continues with the tokens of the remaining
/// characters. Only the first 40 bytes of a breaker and 20 tokens count; empty breakers are
/// ignored. Scans the whole vocabulary: a few dozen milliseconds for 248k tokens.
std::shared_ptr<const sampling::DryBreakers> make_dry_breakers(
    const text::Tokenizer& tokenizer, std::span<const std::string> breakers);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_DRY_BREAKERS_H_
