// The engine's input and output: requests, events and outcomes.
#ifndef CHIMERE_ENGINE_REQUEST_H_
#define CHIMERE_ENGINE_REQUEST_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraints/constraint.h"
#include "engine/adapter_set.h"
#include "engine/cache_tier.h"
#include "engine/speculation/speculation.h"
#include "engine/thinking.h"
#include "sampling/sampler.h"
#include "state/sequence_state.h"
#include "tensor/view.h"
#include "text/reasoning_splitter.h"
#include "text/reasoning_tags.h"

namespace chimere::engine {

/// The state after the first tokens of a prompt, at a chunk boundary: a prompt that starts with the
/// same tokens continues from there and gets the same bits as if it had been computed whole. Holds
/// memory of the state stores of the model and of a drafter's model.
struct Prefix {
  std::vector<int32_t> tokens;
  state::Checkpoint state;
  /// What a drafter has of these tokens (Drafter::context_rows()); nullptr: nothing.
  std::shared_ptr<const state::Checkpoint> context_rows = nullptr;
};

/// A generation that ended and that another request continues with the same bits.
struct Continuation {
  std::vector<int32_t> generated;  ///< its tokens so far, at least one
  std::vector<uint8_t> state;      ///< Outcome::state after the last of them
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

/// One sampled token, delivered as soon as it is sampled.
struct TokenEvent {
  const sampling::Sampled& token;
  /// Text that is now certain to belong to the generation: whole characters that cannot begin a
  /// stop string. It may lag behind the token; the rest comes with later tokens or in
  /// Outcome::text_tail.
  std::string_view text;
  bool from_draft = false;  ///< a drafter had proposed the token
};

struct Outcome {
  FinishReason reason = FinishReason::kError;
  Error error;
  std::string text;       ///< the whole generation, up to the stop string (exclusive)
  std::string text_tail;  ///< the end of `text` that no TokenEvent has carried
  std::string stop;       ///< the stop string that ended it; empty: none did
  /// Every sampled token, including the one that ended the generation.
  std::vector<sampling::Sampled> tokens;
  /// With Request::keep_prefix: the longest part of the prompt that any longer prompt can continue
  /// from.
  std::optional<Prefix> prefix;
  /// With Request::keep_state: the state before the newest token's row (Checkpoint::to_blob()).
  /// Empty if there is none: no token was sampled, or the request failed.
  std::vector<uint8_t> state;
  SpeculationCounts speculation;
  ThinkingCounts thinking;  ///< of a request with ThinkingParams

  int32_t prompt_tokens = 0;
  int32_t reused_tokens = 0;  ///< prompt tokens taken from a cached state
  CacheTier reused_from = CacheTier::kNone;
  double prompt_seconds = 0;  ///< from the request's first step to its first token
  double decode_seconds = 0;  ///< from its first to its last token
};

/// Outputs of layers for consecutive rows; valid during the call that hands them over.
struct TappedRows {
  int32_t position = 0;                      ///< of the first row
  std::span<const int32_t> tokens;           ///< of the rows
  std::span<const ConstMatrixView> outputs;  ///< [rows, n_embd] for each of Request::taps
};

struct Request {
  /// The fairness unit: owners take turns, however many requests each of them has.
  std::string owner;
  /// Scope of the prefix cache shared by all requests with the same name here, whatever their
  /// owner. Absent: the scope is the owner's.
  std::optional<std::string> shared_cache;
  /// Adapters of the model that compute the prompt and the generation. `prefix` and `continuation`
  /// are of the same ones.
  RequestAdapters adapters;
  bool use_cache = true;  ///< look the prompt up in the prefix cache and store its states there
  /// With the prefix cache: warm it up with prompt and generation while the engine is idle. False
  /// if the caller knows better what the next prompt begins with (Engine::warmup()).
  bool warmup = true;
  std::vector<int32_t> prompt;  ///< at least one token
  /// Compute the log-probabilities of the prompt's tokens (on_prompt_logprobs): the prompt's rows
  /// are decode rows, so that they have the bits that the same tokens get when they are generated.
  /// The prefix cache is not used. Not with `prefix`, `keep_prefix`, `continuation` or
  /// `keep_state`.
  bool prompt_logprobs = false;
  sampling::SamplingParams sampling;
  /// -1: until the generation ends or the context is full; 0: only with `prompt_logprobs`.
  int32_t max_tokens = -1;
  /// Until so many tokens are generated, the tokenizer's end-of-generation tokens and `stop_tokens`
  /// are not sampled. Stop strings still end the generation. Not with a constraint.
  int32_t min_tokens = 0;
  std::vector<std::string> stop;  ///< stop strings; they act on the answer alone
  /// Whether the text of the generation may begin with reasoning, or the prompt begins it.
  text::ReasoningSplitter::Start reasoning = text::ReasoningSplitter::Start::kContent;
  /// What begins and ends the reasoning.
  text::ReasoningTags reasoning_tags = {};
  std::vector<int32_t> stop_tokens;  ///< in addition to the tokenizer's end-of-generation tokens
  /// Control tokens whose text is part of the generation's text; sorted. That of others is not but
  /// for the reasoning tags, where `reasoning` says that there may be some.
  std::vector<int32_t> visible_tokens;
  bool shows(int32_t token) const {
    const bool tag =
        reasoning != text::ReasoningSplitter::Start::kContent && reasoning_tags.is_token(token);
    return tag || std::ranges::binary_search(visible_tokens, token);
  }
  Speculation speculation = Speculation::off();
  /// Restricts the tokens of the generation; nullptr: all are allowed.
  std::shared_ptr<constraints::Constraint> constraint = nullptr;
  std::optional<ThinkingParams> thinking;  ///< absent: no reasoning control
  std::optional<Prefix> prefix;            ///< of the same model; used if the prompt starts with it
  bool keep_prefix = false;                ///< fill in Outcome::prefix
  /// The prompt has been generated from before; this request adds tokens to that generation, as if
  /// the earlier request had not ended. Stop strings match within the new text only. Not with
  /// `thinking` or Mirostat, which carry state of their own from token to token.
  std::optional<Continuation> continuation;
  /// Fill in Outcome::state, for a Continuation. Each token then gets a step of its own: no drafts
  /// and no overlap scheduling. Not with `thinking` or Mirostat.
  bool keep_state = false;

  /// With `prompt_logprobs`: called once, before any token is delivered, with the prompt's tokens
  /// after the first one. Not called if the request ends before they are computed. May be empty;
  /// must not block.
  std::function<void(std::vector<sampling::Sampled>)> on_prompt_logprobs;
  /// Layers, rising, whose outputs on_rows receives. Not with a prefix cache, whose rows are not
  /// computed.
  std::vector<int32_t> taps;
  /// Called after each step with the rows that it has added to the prompt or the generation, in
  /// order; rows that the model could not read back are missing. The last token of a generation has
  /// no row. Must not block.
  std::function<void(const TappedRows&)> on_rows;
  std::function<void(const TokenEvent&)> on_token;  ///< may be empty; must not block
  std::function<void(Outcome)> on_finish;           ///< may be empty; called exactly once, last

  /// The scope in the prefix cache; owner scopes, shared scopes and those of different adapters are
  /// disjoint.
  std::string cache_scope() const {
    const std::string scope = shared_cache ? "shared:" + *shared_cache : "owner:" + owner;
    return adapters.key.empty() ? scope : "lora:" + adapters.key + ":" + scope;
  }
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_REQUEST_H_
