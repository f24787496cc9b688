// What the engine is asked, and what it answers.
#ifndef CHIMERE_ENGINE_REQUEST_H_
#define CHIMERE_ENGINE_REQUEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/cache_tier.h"
#include "engine/speculation/speculation.h"
#include "engine/thinking.h"
#include "sampling/sampler.h"
#include "state/sequence_state.h"

namespace chimere::engine {

/// The state behind the first tokens of a prompt, at a chunk boundary: a prompt that starts with
/// the same tokens continues from there and gets the same bits as if it had been computed whole.
/// Holds memory of the model's state store.
struct Prefix {
  std::vector<int32_t> tokens;
  state::Checkpoint state;
};

enum class FinishReason {
  kStop,         ///< an end-of-generation token, a stop token or a stop string
  kLength,       ///< max_tokens
  kContextFull,  ///< no position is left
  kCancelled,
  kError,  ///< see Outcome::error
};
/// "stop", "length", "context", "cancelled", "error".
const char* finish_reason_name(FinishReason reason);

/// One sampled token, as it comes.
struct TokenEvent {
  const sampling::Sampled& token;
  /// Text that is now certain to belong to the generation: whole characters that cannot begin a
  /// stop string. Often a little behind the token; the rest comes with later tokens or in
  /// Outcome::text_tail.
  std::string_view text;
};

struct Outcome {
  FinishReason reason = FinishReason::kError;
  Error error;
  std::string text;       ///< the whole generation; stop strings and what follows them are cut off
  std::string text_tail;  ///< the end of `text` that no TokenEvent has carried
  /// Every sampled token, the one that ended the generation included.
  std::vector<sampling::Sampled> tokens;
  /// If asked for: the longest part of the prompt that any longer prompt can continue from.
  std::optional<Prefix> prefix;
  SpeculationCounts speculation;
  ThinkingCounts thinking;  ///< of a request that controls it

  int32_t prompt_tokens = 0;
  int32_t reused_tokens = 0;  ///< of the prompt, not computed again
  CacheTier reused_from = CacheTier::kNone;
  double prompt_seconds = 0;  ///< from the request's first step to its first token
  double decode_seconds = 0;  ///< from its first to its last token
};

struct Request {
  /// Who asks: owners take turns, whatever number of requests each of them has.
  std::string owner;
  /// Who may find this prompt in the prefix cache, where prompts are shared on purpose: requests
  /// with the same name here, whoever asks. Nothing: requests of the same owner.
  std::optional<std::string> shared_cache;
  bool use_cache = true;  ///< look for the prompt in the prefix cache, and leave it there
  /// With the prefix cache: prompt and generation are computed as prompt while the engine is idle.
  /// False where the caller knows better what the next prompt begins with (Engine::warmup()).
  bool warmup = true;
  std::vector<int32_t> prompt;  ///< at least one token
  sampling::SamplingParams sampling;
  int32_t max_tokens = -1;           ///< -1: until the generation or the context ends
  std::vector<std::string> stop;     ///< texts that end the generation
  std::vector<int32_t> stop_tokens;  ///< besides the tokenizer's end-of-generation tokens
  Speculation speculation = Speculation::kOff;
  std::optional<ThinkingParams> thinking;  ///< absent: the model thinks as it likes
  std::optional<Prefix> prefix;            ///< of the same model; used if the prompt starts with it
  bool keep_prefix = false;                ///< fill in Outcome::prefix

  std::function<void(const TokenEvent&)> on_token;  ///< may be empty
  std::function<void(Outcome)> on_finish;           ///< called exactly once, last

  /// The scope in the prefix cache; owners and shared names never meet.
  std::string cache_scope() const {
    return shared_cache ? "shared:" + *shared_cache : "owner:" + owner;
  }
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_REQUEST_H_
