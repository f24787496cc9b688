// One request of a client: its choices on their way through the engine, and back as JSON or events.
#ifndef CHIMERE_SERVING_GENERATION_JOB_H_
#define CHIMERE_SERVING_GENERATION_JOB_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "engine/service.h"
#include "protocol/api_error.h"
#include "protocol/reasoning_splitter.h"
#include "protocol/responses.h"
#include "serving/response_stream.h"
#include "serving/served_model.h"

namespace chimere::serving {

/// What is known of a request when it is over.
struct GenerationReport {
  std::string id;
  int status = 200;
  std::string outcome;  ///< "stop", "length", "cancelled" or the code of an error
  protocol::Usage usage;
  double first_token_seconds = 0;  ///< 0: there was none
  double seconds = 0;
};

struct GenerationSpec {
  struct Choice {
    engine::Request request;
    protocol::ReasoningSplitter::Start start = protocol::ReasoningSplitter::Start::kContent;
    std::string echo;         ///< text before the response
    bool new_prompt = false;  ///< its prompt counts: it is no other choice of the one before
  };
  bool chat = true;
  bool stream = false;
  bool include_usage = false;
  std::vector<Choice> choices;  ///< at least one
  Headers headers;              ///< of the answer
  std::vector<protocol::Warning> warnings = {};
  /// Gets each choice that has ended without an error, as it is told to the client. Called by the
  /// engine's thread, which must not wait; may be empty.
  std::function<void(const protocol::Choice&)> on_choice = {};
};

class GenerationJob : public std::enable_shared_from_this<GenerationJob> {
 public:
  /// `done` is called once, when the last choice is finished or nothing was begun.
  GenerationJob(const ServedModel& model, std::shared_ptr<ResponseStream> stream,
                GenerationSpec spec, std::function<void(const GenerationReport&)> done);

  /// Hands the choices to the engine. When one of them is refused, all are.
  void start();

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    Choice(protocol::ReasoningSplitter::Start start, protocol::TextChunks plain_text)
        : splitter(start), text_chunks(std::move(plain_text)) {}
    engine::RequestId id = -1;
    protocol::ReasoningSplitter splitter;
    protocol::TextChunks text_chunks;
    protocol::Choice whole;  ///< what a response in one piece will say
    /// Tokens whose text is held back, with the place in the raw text where it begins.
    std::vector<std::pair<size_t, protocol::TokenLogprobs>> pending;
    size_t sampled_bytes = 0;  ///< text of the tokens so far
    size_t shown_bytes = 0;    ///< of it, certain to belong to the response
  };

  /// A token of a stream on its way from the engine's thread to the connection's, which makes an
  /// event of it.
  struct PendingToken {
    size_t index = 0;
    sampling::Sampled token;
    std::string text;
  };

  void on_token(size_t index, const engine::TokenEvent& event);
  void drain();
  void write_pending();
  void add_token(size_t index, const sampling::Sampled& token, std::string_view text);
  void on_finish(size_t index, const engine::Outcome& outcome);
  void add_logprobs(Choice& choice, const sampling::Sampled& token);
  /// Adds text that is certain; streams it.
  void show(Choice& choice, const protocol::ReasoningSplitter::Piece& piece, size_t raw_bytes,
            std::string finish_reason);
  /// The answer is an error, unless it is one already; the other choices are cancelled.
  void fail(const protocol::ApiError& error);
  /// Sends what is left to say.
  void finish_all();
  void cancel_all();
  std::string chunk_of(const Choice& choice, const protocol::Choice& part) const;
  protocol::TokenLogprobs logprobs_of(const sampling::Sampled& token) const;

  const ServedModel& model_;
  const std::shared_ptr<ResponseStream> stream_;
  const GenerationSpec spec_;
  const std::function<void(const GenerationReport&)> done_;
  const Clock::time_point started_ = Clock::now();

  // The engine's thread holds this one for a moment for each token, and the other one at the end.
  std::mutex pending_mutex_;
  std::vector<PendingToken> pending_tokens_;
  size_t pending_bytes_ = 0;  ///< at least what they will be as events
  double first_token_seconds_ = 0;

  std::mutex mutex_;  ///< the engine's thread, the worker that starts, the connection's thread
  std::vector<PendingToken> writing_;  ///< here for its memory
  protocol::ResponseHead head_;
  std::vector<Choice> choices_;
  size_t unfinished_ = 0;
  bool failed_ = false;
  GenerationReport report_;
};

/// `prefix` and 24 random letters and digits.
std::string make_id(const std::string& prefix);

/// An error as an answer, with Retry-After where it helps.
HttpResponse error_response(const protocol::ApiError& error, Headers headers);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_GENERATION_JOB_H_
