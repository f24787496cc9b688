// What schedules of whole generations share: a tokenizer, and the reference that a generation must
// equal.
#ifndef CHIMERE_TESTS_SCHEDULE_FUZZ_GENERATIONS_H_
#define CHIMERE_TESTS_SCHEDULE_FUZZ_GENERATIONS_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "constraints/testing.h"
#include "engine/request.h"
#include "model/model.h"

namespace chimere::fuzz {

/// kVocabulary tokens: reasoning tags, letters, digits, what JSON is written with, and tokens of
/// several characters, so that texts can be divided in different ways.
const constraints::TestTokenizer& small_tokenizer();

/// One to three prompts of up to 90 tokens: few, so that generations share one and hit the prefix
/// cache.
std::vector<std::vector<int32_t>> random_prompts(std::mt19937& random);

/// A reasoning budget of a few tokens, for a prompt that ends with the opening tag.
engine::ThinkingParams random_thinking(std::mt19937& random);

/// The request alone on `solo`, without drafts and cache. Errors: those of Engine::create() and
/// submit().
Result<engine::Outcome> run_alone(model::Model& solo, engine::Request request);

/// How a generation differs from the reference: by its end, a token, the bits of a log-probability,
/// or its text. Nothing if it does not; of a cancelled one the tokens up to then are compared.
std::optional<std::string> difference(const engine::Outcome& got, const engine::Outcome& want);

}  // namespace chimere::fuzz

#endif  // CHIMERE_TESTS_SCHEDULE_FUZZ_GENERATIONS_H_
