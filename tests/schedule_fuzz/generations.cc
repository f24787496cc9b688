#include "generations.h"

#include <bit>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/engine.h"
#include "engine/thinking.h"
#include "fleet.h"

namespace chimere::fuzz {
namespace {

using constraints::TestTokenizer;

TestTokenizer make_tokenizer() {
  std::vector<std::string> tokens = {"<|think|>", "<|/think|>"};
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  for (const char c : std::string_view("0123456789{}[]\":, \n.-")) tokens.emplace_back(1, c);
  for (const char* text :
       {"ab", "abc", "\":", "\", \"", "{\"", "\"}", "true", "na", "name", "bc", "10", ": "}) {
    tokens.emplace_back(text);
  }
  tokens.resize(kVocabulary - 1, "z");
  return TestTokenizer(std::move(tokens));
}

}  // namespace

const TestTokenizer& small_tokenizer() {
  static const TestTokenizer tokenizer = make_tokenizer();
  return tokenizer;
}

std::vector<std::vector<int32_t>> random_prompts(std::mt19937& random) {
  std::vector<std::vector<int32_t>> prompts(1 + random() % 3);
  for (std::vector<int32_t>& prompt : prompts) {
    prompt.resize(1 + random() % 90);
    for (int32_t& token : prompt) token = static_cast<int32_t>(2 + random() % (kVocabulary - 3));
  }
  return prompts;
}

engine::ThinkingParams random_thinking(std::mt19937& random) {
  const TestTokenizer& tokenizer = small_tokenizer();
  engine::ThinkingParams thinking;
  thinking.budget = static_cast<int32_t>(4 + random() % 20);
  thinking.answer_tokens = 10;
  thinking.certain = random() % 2 == 0 ? 2 : 0.5;
  thinking.open = tokenizer.find("<|think|>");
  thinking.close = tokenizer.find("<|/think|>");
  thinking.forced_closing = tokenizer.encode("abc.", false);
  thinking.resume = tokenizer.encode("na", false);
  thinking.loop_breaker = tokenizer.encode(", ", false);
  return thinking;
}

Result<engine::Outcome> run_alone(model::Model& solo, engine::Request request) {
  request.speculation = engine::Speculation::off();
  request.speculation.certain = false;
  engine::Outcome outcome;
  request.on_finish = [&](engine::Outcome o) { outcome = std::move(o); };
  CHIMERE_TRY(const auto engine, engine::Engine::create(solo, small_tokenizer(), {}));
  CHIMERE_TRY([[maybe_unused]] const engine::RequestId id, engine->submit(std::move(request)));
  while (engine->step()) {
  }
  return outcome;
}

std::optional<std::string> difference(const engine::Outcome& got, const engine::Outcome& want) {
  const bool cancelled = got.reason == engine::FinishReason::kCancelled;
  if (!cancelled && got.reason != want.reason) {
    return std::string("it ended by ") + engine::finish_reason_name(got.reason) + " instead of " +
           engine::finish_reason_name(want.reason) + " (" + got.error.message + ")";
  }
  const bool fits =
      cancelled ? got.tokens.size() <= want.tokens.size() : got.tokens.size() == want.tokens.size();
  if (!fits) return "it has another length";
  for (size_t i = 0; i < got.tokens.size(); ++i) {
    const bool same = got.tokens[i].id == want.tokens[i].id &&
                      std::bit_cast<uint32_t>(got.tokens[i].logprob) ==
                          std::bit_cast<uint32_t>(want.tokens[i].logprob);
    if (!same) return "token " + std::to_string(i) + " differs";
  }
  if (!cancelled && got.text != want.text) return "its text differs";
  return std::nullopt;
}

}  // namespace chimere::fuzz
