// One client request: submits its choices to the engine and turns the results into JSON or events.
#ifndef CHIMERE_SERVING_GENERATION_JOB_H_
#define CHIMERE_SERVING_GENERATION_JOB_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mpsc_list.h"
#include "base/mutex.h"
#include "engine/request.h"
#include "engine/service.h"
#include "protocol/api_error.h"
#include "protocol/generation_writer.h"
#include "protocol/responses.h"
#include "serving/response_stream.h"
#include "serving/served_model.h"
#include "text/reasoning_splitter.h"
#include "text/tool_call_parser.h"
#include "text/tool_format.h"

namespace chimere::serving {

/// The summary of a finished request.
struct GenerationReport {
  std::string id;
  int status = 200;
  std::string outcome;  ///< "stop", "length", "cancelled" or an error code
  protocol::Usage usage;
  double first_token_seconds = 0;  ///< 0: there was none
  double seconds = 0;
};

struct GenerationSpec {
  struct Choice {
    engine::Request request;
    text::ReasoningSplitter::Start start = text::ReasoningSplitter::Start::kContent;
    std::string echo;         ///< text before the generation; see Request::prompt_logprobs
    bool new_prompt = false;  ///< counted in the usage; further choices of a prompt are not
  };
  /// What generations may call, and how the model writes it.
  struct Tools {
    text::ToolFormat format;
    std::vector<text::Tool> definitions;
    std::string opened = {};  ///< ChatPrompt::opened
  };
  /// Tells the client in its API's form; used by one thread at a time.
  std::shared_ptr<protocol::GenerationWriter> writer;
  protocol::ApiForm form = protocol::ApiForm::kOpenAi;  ///< of errors before a stream begins
  std::optional<Tools> tools = std::nullopt;            ///< absent: no text is a call
  bool stream = false;
  std::vector<Choice> choices;  ///< at least one
  Headers headers;              ///< of the response
  /// Called with each choice that has ended without an error, as sent to the client, on the
  /// engine's thread, which must not wait; may be empty.
  std::function<void(const protocol::Choice&)> on_choice = {};
  /// Called with all choices once they have ended without an error, before the client receives the
  /// end of the response; on the engine's thread; may be empty.
  std::function<void(std::span<const protocol::Choice>, const protocol::Usage&,
                     const protocol::Timings&)>
      on_end = {};
  /// Receives the error in place of the client; may be empty.
  std::function<void(const protocol::ApiError&)> on_error = {};
};

class GenerationJob : public std::enable_shared_from_this<GenerationJob> {
 public:
  /// `done` is called once, when the last choice is finished or the request was refused. It, or
  /// what it captures, keeps the model loaded.
  GenerationJob(const ServedModel& model, std::shared_ptr<ResponseStream> stream,
                GenerationSpec spec, std::function<void(const GenerationReport&)> done);

  /// Submits the choices to the engine. If one of them is refused, all are.
  void start();

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    explicit Choice(const GenerationSpec::Choice& wanted)
        : splitter(wanted.start, wanted.request.reasoning_tags) {}
    engine::RequestId id = -1;
    text::ReasoningSplitter splitter;
    std::optional<text::ToolCallParser> calls;
    protocol::Choice whole;  ///< the choice in a non-streamed response
    /// Tokens whose text is held back, with the offset in the raw text where it begins.
    std::vector<std::pair<size_t, protocol::TokenLogprobs>> pending;
    size_t sampled_bytes = 0;    ///< text of the tokens so far
    size_t emitted_bytes = 0;    ///< of it, certain to belong to the response
    int64_t characters = 0;      ///< of whole.content, with log-probabilities
    bool scores_prompt = false;  ///< every token has log-probabilities, the prompt's too
  };

  /// A streamed token, handed from the engine's thread to the connection's, which serialises it.
  struct PendingToken {
    size_t index = 0;
    sampling::Sampled token;
    std::string text;
    bool from_draft = false;
    size_t bytes = 0;     ///< at least its size as an event
    bool prompt = false;  ///< not a token but the scored ones of the prompt
    std::vector<sampling::Sampled> scored = {};
  };

  void on_token(size_t index, const engine::TokenEvent& event);
  void on_prompt_logprobs(size_t index, std::vector<sampling::Sampled> scored);
  void drain(ResponseStream::Piece& out);
  void write_pending();
  /// Sends events to the client; inside drain(), with the piece that is being assembled.
  void send(std::string_view events);
  void add_token(size_t index, const engine::TokenEvent& event);
  /// The echoed prompt with its log-probabilities.
  void add_prompt(size_t index, std::span<const sampling::Sampled> scored);
  void on_finish(size_t index, const engine::Outcome& outcome);
  void add_logprobs(size_t index, const engine::TokenEvent& event);
  /// Adds text that is certain; streams it.
  void emit(Choice& choice, protocol::Choice part, size_t raw_bytes, std::string finish_reason);
  /// The content and the calls in text that is not reasoning. `last`: the text has ended.
  protocol::Choice part_of(Choice& choice, text::ReasoningSplitter::Piece piece,
                           std::optional<text::ToolCallParser::End> end) const;
  /// Makes the response an error unless it is one already; cancels the other choices.
  void fail(const protocol::ApiError& error);
  /// Sends the remaining output.
  void finish_all();
  void cancel_all();
  protocol::TokenLogprobs logprobs_of(const sampling::Sampled& token, bool from_draft) const;

  const ServedModel& model_;
  const std::shared_ptr<ResponseStream> stream_;
  const GenerationSpec spec_;
  const std::function<void(const GenerationReport&)> done_;
  const Clock::time_point started_ = Clock::now();

  // The engine's thread passes a streamed token on without a lock; it takes `mutex_` at the end.
  MpscList<PendingToken> pending_tokens_;
  std::atomic<size_t> pending_bytes_ = 0;  ///< at least their size as events
  double first_token_seconds_ = 0;         ///< used by the engine's thread

  Mutex mutex_;  ///< shared by the engine's thread, the submitting worker and the connection
  std::vector<PendingToken> writing_;  ///< scratch
  std::string* piece_ = nullptr;       ///< inside drain(): the events that it assembles
  std::vector<Choice> choices_;
  size_t unfinished_ = 0;
  bool failed_ = false;
  GenerationReport report_;
  protocol::Timings timings_;
};

/// `prefix` followed by 24 random letters and digits.
std::string make_id(const std::string& prefix);

/// An error as a response, with Retry-After where it applies.
HttpResponse error_response(const protocol::ApiError& error, Headers headers,
                            protocol::ApiForm form);

int64_t unix_seconds();
int64_t unix_milliseconds();

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_GENERATION_JOB_H_
