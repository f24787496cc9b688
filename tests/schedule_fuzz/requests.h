// The requests of a schedule, and their logits in solo runs.
#ifndef CHIMERE_TESTS_SCHEDULE_FUZZ_REQUESTS_H_
#define CHIMERE_TESTS_SCHEDULE_FUZZ_REQUESTS_H_

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace chimere::fuzz {

/// A prompt, run as prefill chunks, and a generation, run as decode steps. Generations are given,
/// not sampled: the logits are under test.
struct Request {
  std::vector<int32_t> tokens;  ///< prompt, then generation
  std::vector<int32_t> chunks;  ///< of the prompt
  int32_t prompt = 0;           ///< number of prompt tokens
  std::vector<kernels::AdapterUse> adapters;
  int32_t shared = 0;  ///< length of the prefix shared with the sibling request
  std::vector<float>
      solo;  ///< [tokens, n_vocab] logits of the request alone; empty until asked for
};

/// Requests in pairs (2i, 2i + 1) that differ only after `shared` tokens, so that one can be
/// forked off the other.
/// A pair uses the same adapters, often none, among those of numbers below kAdapters.
std::vector<Request> make_requests(std::mt19937& rng, int pairs);

/// The request's scope in the prefix cache.
std::string cache_scope(const Request& request);

/// Logits of every token when the request runs alone: a chunk, then a token, at a time.
Result<std::vector<float>> run_solo(model::Model& model, const Request& request);

}  // namespace chimere::fuzz

#endif  // CHIMERE_TESTS_SCHEDULE_FUZZ_REQUESTS_H_
