#include "constrained.h"

#include <array>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "constraints/constraint.h"
#include "constraints/testing.h"
#include "constraints/token_trie.h"
#include "engine/engine.h"
#include "engine/prefix_cache.h"
#include "fleet.h"
#include "generations.h"

namespace chimere::fuzz {
namespace {

constexpr std::array kSpeculations = {"off", "auto", "mtp", "ngram"};

constraints::ConstraintSpec random_spec(std::mt19937& random) {
  constraints::ConstraintSpec spec;
  switch (random() % 6) {
    case 0:
      spec.content = constraints::JsonSchemaSpec{
          R"({"type": "object", "properties": {"name": {"enum": ["abc", "bcna", "na"]},
              "abc": {"type": "integer", "minimum": 1, "maximum": 1010}, "true": {"type":
              "boolean"}}, "required": ["name", "abc"], "additionalProperties": false})"};
      break;
    case 1:
      spec.content = constraints::JsonSchemaSpec{
          R"({"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 1,
              "maxItems": 4, "uniqueItems": true})"};
      break;
    case 2:
      spec.content = constraints::RegexSpec{"abcabcabc[a-z]{2,12}name(true|10)"};
      break;
    case 3:
      spec.content = constraints::GbnfSpec{"root ::= (\"ab\" | \"{\" root \"}\")* \"name\""};
      break;
    case 4:
      spec.content = constraints::ChoicesSpec{{"abcname", "abcnabc", "true", "10, 10"}};
      break;
    default:
      spec.content = constraints::RegexSpec{R"([\s\S]*)"};
  }
  return spec;
}

/// A request whose prompt may end inside reasoning, which then has a budget.
engine::Request random_request(std::mt19937& random,
                               const std::shared_ptr<const constraints::TokenTrie>& trie,
                               std::span<const std::vector<int32_t>> prompts) {
  const constraints::TestTokenizer& tokenizer = small_tokenizer();
  engine::Request r;
  r.prompt = prompts[random() % prompts.size()];
  constraints::ConstraintSpec spec = random_spec(random);
  if (random() % 3 == 0) {
    const bool inside = random() % 2 == 0;
    const int32_t open = tokenizer.find("<|think|>");
    const int32_t close = tokenizer.find("<|/think|>");
    spec.reasoning = constraints::ReasoningSpec{{"<|think|>", open}, {"<|/think|>", close}, inside};
    if (inside) {
      r.prompt.push_back(open);
      r.thinking = random_thinking(random);
    }
  }
  r.constraint = constraints::Constraint::compile(spec, trie).value();
  r.max_tokens = static_cast<int32_t>(1 + random() % 40);
  r.sampling.temperature = std::array{0.F, 0.7F, 1.5F}[random() % 3];
  r.sampling.top_k = random() % 2 == 0 ? 0 : 10;
  r.sampling.top_p = random() % 3 == 0 ? 0.9F : 1.F;
  r.sampling.presence_penalty = random() % 4 == 0 ? 0.5F : 0.F;
  r.sampling.logprobs = random() % 3 == 0 ? 2 : -1;
  r.sampling.seed = random();
  r.speculation = *engine::Speculation::named(kSpeculations[random() % kSpeculations.size()]);
  return r;
}

/// Whether the tokens are those of a text of the constraint, a whole one if the generation ended by
/// itself.
bool in_language(const engine::Request& request, const engine::Outcome& outcome) {
  constraints::Matcher matcher = request.constraint->matcher();
  for (const sampling::Sampled& token : outcome.tokens) {
    if (!matcher.accept(token.id)) return false;
  }
  return outcome.reason != engine::FinishReason::kStop || matcher.finished();
}

}  // namespace

std::optional<std::string> constrained_generations(model::Model& model, model::Model& solo,
                                                   uint32_t seed, ConstrainedCounts& counts) {
  std::mt19937 random(seed);
  static const auto trie = constraints::TokenTrie::create(small_tokenizer(), kVocabulary);
  const std::vector<std::vector<int32_t>> prompts = random_prompts(random);
  engine::PrefixCacheOptions cache_options;
  cache_options.device_states = 3;
  cache_options.memory_bytes = 1 << 20;
  cache_options.weights = state::WeightsHash::known({1, 2});
  auto cache = engine::PrefixCache::create(model.states(), std::move(cache_options));
  if (!cache.ok()) return cache.error().message;
  engine::EngineOptions options;
  options.max_step_rows = 200;
  options.max_running = static_cast<int32_t>(1 + random() % 6);
  options.cache = cache->get();
  auto engine = engine::Engine::create(model, small_tokenizer(), options);
  if (!engine.ok()) return engine.error().message;
  std::vector<engine::Request> requests(2 + random() % 5);
  std::vector<engine::Outcome> outcomes(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i] = random_request(random, trie, prompts);
    engine::Request r = requests[i];
    r.on_finish = [&outcomes, i](engine::Outcome o) { outcomes[i] = std::move(o); };
    const auto submitted = (*engine)->submit(std::move(r));
    if (!submitted.ok()) return submitted.error().message;
    for (uint32_t steps = random() % 6; steps > 0; --steps) (*engine)->step();
  }
  while ((*engine)->step()) {
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto fail = [&](const std::string& what) {
      return "constrained generation " + std::to_string(i) + " of " +
             std::to_string(requests.size()) + ": " + what;
    };
    const engine::Outcome& got = outcomes[i];
    if (got.reason == engine::FinishReason::kError) return fail(got.error.message);
    if (!in_language(requests[i], got)) return fail("\"" + got.text + "\" is not allowed");
    const auto want = run_alone(solo, requests[i]);
    if (!want.ok()) return fail(want.error().message);
    if (const auto differs = difference(got, *want)) return fail(*differs);
    ++counts.generations;
    counts.complete += got.reason == engine::FinishReason::kStop ? 1 : 0;
    counts.with_budget += requests[i].thinking ? 1 : 0;
    counts.drafted += got.speculation.drafted();
    counts.from_cache += got.reused_tokens > 0 ? 1 : 0;
  }
  return std::nullopt;
}

}  // namespace chimere::fuzz
