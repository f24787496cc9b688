// How a generation is told to the client: one implementation per API.
#ifndef CHIMERE_PROTOCOL_GENERATION_WRITER_H_
#define CHIMERE_PROTOCOL_GENERATION_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "protocol/api_error.h"
#include "protocol/responses.h"

namespace chimere::protocol {

/// Seconds that a finished request took.
struct Timings {
  double total = 0;
  double prompt = 0;  ///< to the first token, of the slowest choice
  double decode = 0;  ///< from the first to the last token, of the slowest choice
};

/// Turns the events of one request's generation into the bytes of a response: either whole() once,
/// or open(), piece() for each part of a choice, and close() or fail(). Not thread-safe.
class GenerationWriter {
 public:
  virtual ~GenerationWriter() = default;

  /// The id of the response in the API and in the log.
  virtual const std::string& id() const = 0;
  virtual std::string_view stream_type() const { return "text/event-stream"; }
  /// The beginning of the ids of tool calls.
  virtual std::string_view call_prefix() const { return "call_"; }

  /// The first events. `choices`: their indices, and what is echoed of the prompt.
  virtual std::string open(std::span<const Choice> choices, int64_t prompt_tokens) = 0;
  /// A part of a choice: text, reasoning and pieces of calls that come in this order; the last part
  /// has a finish reason.
  virtual std::string piece(const Choice& part) = 0;
  /// A step of an orchestrated chat (a JSON object), as events that clients who do not know them
  /// ignore.
  virtual std::string step(std::string_view /*json*/) { return ""; }
  /// What close() and whole() say about an orchestrated chat, as a JSON object; to be set before.
  virtual void set_orchestration(std::string_view /*json*/) {}
  /// The last events.
  virtual std::string close(const Usage& usage, const Timings& timings) = 0;
  /// The last events of a stream that fails.
  virtual std::string fail(const ApiError& error) = 0;

  virtual std::string whole(std::span<const Choice> choices, const Usage& usage,
                            const Timings& timings) = 0;
};

/// OpenAI's chat completions (`chat`) and completions. `include_usage`: a last chunk of a stream
/// has the usage.
std::unique_ptr<GenerationWriter> openai_writer(ResponseHead head, bool chat, bool include_usage);

/// Anthropic's Messages. `show_thinking`: with the text of the reasoning; else the signature
/// carries it. `counts_writes`: the tokens of the prompt that were computed count as written to the
/// cache.
std::unique_ptr<GenerationWriter> anthropic_writer(std::string id, std::string model,
                                                   bool show_thinking, bool counts_writes);
/// The response of count_tokens.
std::string token_count_response(int64_t tokens);

/// Anthropic's list of models; of one of them.
std::string anthropic_model_list(std::span<const ModelEntry> models);
std::string anthropic_model(const ModelEntry& model);

/// OpenAI's Responses. `echo` and `carry_reasoning`: of the ResponsesRequest; `stored`: whether it
/// can be retrieved later. whole() may be called after the events of a stream and then repeats
/// their ids.
std::unique_ptr<GenerationWriter> responses_writer(ResponseHead head, const std::string& echo,
                                                   bool stored, bool carry_reasoning);
/// A part of a list of items.
struct ItemPage {
  size_t limit = 20;
  bool oldest_first = false;
  std::string after = {};  ///< id of the item before it; empty: the list's beginning
};
/// The input of a stored response as a list of items; `input`: ResponsesRequest::input.
std::string input_items_response(const std::string& input, const ItemPage& page = {});
/// The response of /v1/responses/input_tokens.
std::string input_token_count_response(int64_t tokens);
/// The response of /v1/responses/{id}/cancel, whose generation has been told to end.
std::string cancelled_response(const ResponseHead& head);
std::string deleted_response(std::string_view id);

/// Milliseconds since 1970 as the time in UTC of ISO 8601, like 2026-01-31T12:00:00.000Z.
std::string iso_time(int64_t unix_milliseconds);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_GENERATION_WRITER_H_
