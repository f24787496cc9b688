// Runs many requests on one model: mixes their rows into steps, samples, and tells the callers.
#ifndef CHIMERE_ENGINE_ENGINE_H_
#define CHIMERE_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/generation.h"
#include "engine/request.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct EngineOptions {
  int32_t max_step_rows = 512;  ///< of one forward(); at most what the model was loaded with
  int32_t max_running = 64;     ///< requests that have a state at the same time; the others wait
  int64_t context = 0;          ///< most tokens of one request; 0: as many as the state store holds
};

/// A loop that its caller drives: submit() and cancel() at any time (callbacks included), step()
/// until it says that nothing is left. All on one thread.
///
/// What a request answers depends on the request alone. Every step holds one row of each request
/// that is replying, then whole prompt chunks, taken in turn from the requests that are still
/// reading. When the state store is full, the youngest request is copied out of it and comes back,
/// with the same bits, when there is room.
class Engine {
 public:
  /// Model and tokenizer must outlive the engine. Errors: kInvalidArgument (options).
  static Result<std::unique_ptr<Engine>> create(model::Model& model,
                                                const text::Tokenizer& tokenizer,
                                                const EngineOptions& options);

  /// Errors: kInvalidArgument (an empty or too long prompt, tokens that do not exist, sampling
  /// values out of range); no callback is called then.
  Result<RequestId> submit(Request request);
  /// The request ends at the next step() with FinishReason::kCancelled; what it has said so far is
  /// in its outcome. False if there is no such request (any more).
  bool cancel(RequestId id);

  /// Computes one step. False when there is nothing left to do.
  bool step();

  int64_t context() const { return options_.context; }

 private:
  using List = std::vector<std::unique_ptr<Generation>>;
  struct Planned {
    Generation* generation = nullptr;
    int64_t rows = 0;  ///< of the prompt; 0: a decode row
  };

  Engine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options);

  void finish_cancelled();
  void admit();
  bool has_room_for(const Generation& candidate) const;
  int64_t pages_for(int64_t tokens) const;
  std::vector<Planned> plan_rows();
  void handle_failure(const Error& error, const std::vector<Planned>& planned);
  void deliver(const std::vector<Planned>& planned, const model::StepResult& result);
  void drop_finished();

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  EngineOptions options_;
  std::vector<int32_t> message_starts_;
  RequestId next_id_ = 1;
  List running_;  ///< with a state, oldest first
  List waiting_;  ///< without one, oldest first
  std::vector<RequestId> cancelled_;
  size_t crowd_limit_;  ///< most running requests since the state store was last found full
  size_t turn_ = 0;     ///< who gets the first prompt chunk
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_ENGINE_H_
