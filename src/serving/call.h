// A request that the server has admitted, and what its answer has in common with all others.
#ifndef CHIMERE_SERVING_CALL_H_
#define CHIMERE_SERVING_CALL_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/warning.h"
#include "serving/access.h"
#include "serving/api_keys.h"
#include "serving/generation_job.h"
#include "serving/http_message.h"
#include "serving/key_usage.h"
#include "serving/log_line.h"
#include "serving/metrics.h"
#include "serving/response_stream.h"
#include "serving/served_model.h"

namespace chimere::serving {

/// An admitted request until its response is complete.
struct Call {
  HttpRequest request;
  std::shared_ptr<ResponseStream> stream;
  std::string route;
  protocol::ApiForm form = protocol::ApiForm::kOpenAi;  ///< of errors
  std::string request_id;                               ///< the client's, or a new one
  std::string traceparent;  ///< of W3C Trace Context, as the client sent it; empty: none
  std::string tracestate;   ///< beside it; empty: none
  std::shared_ptr<const ApiKey> key;
  bool counted = false;  ///< among the requests of its key
  std::string ignored;   ///< fields of its body that were ignored, separated by commas
  std::vector<protocol::Warning> warnings;  ///< of its response
  /// What Route::model asks for; the other is nullptr. They keep the model loaded: whatever uses it
  /// after the response is complete holds a copy.
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<const ServedEmbedder> embedder;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  /// The model name of a chat that ChatOrchestrator answers; empty: the model answers it.
  std::string orchestrator;
  /// Set in a generation that is a part of another call: takes the error in place of the client.
  /// Such calls are neither counted nor logged.
  std::function<void(const protocol::ApiError&)> on_error;

  /// The owner for the engine and the engram tables: the key's name, or the anonymous owner.
  const std::string& owner() const;
};
using CallPtr = std::shared_ptr<Call>;

/// Completes calls: response, metrics, log line, and the end of the key's use. Any thread.
class Responder {
 public:
  struct Options {
    AccessRules access;
    bool log_prompts = false;
    std::function<void(const LogLine&)> log;  ///< receives one line per event
  };
  /// Metrics and usage must outlive it.
  Responder(Options options, Metrics& metrics, KeyUsage& usage);

  /// `error_code`: of the log line.
  void respond(const CallPtr& call, HttpResponse response, const std::string& error_code = "");
  void respond(const CallPtr& call, const protocol::ApiError& error);
  /// For calls whose response somebody else has written.
  void finish(const CallPtr& call, const GenerationReport& report);
  /// The answer to a request that was not admitted; counted and logged.
  HttpResponse refuse(const HttpHead& head, const std::string& route, protocol::ApiForm form,
                      const protocol::ApiError& error, Headers headers);
  /// Headers of every response to this request.
  Headers extra_headers(const Call& call) const;
  /// Those that follow from the head of a request alone.
  Headers extra_headers(const HttpHead& head) const;

 private:
  const Options options_;
  Metrics& metrics_;
  KeyUsage& usage_;
};

/// X-Request-Id if it has from 1 to 128 letters, digits and characters of "-_.:", else a new id.
std::string request_id_of(const HttpHead& head);
/// The header traceparent if it is valid (W3C Trace Context, version 00), else nothing.
std::string traceparent_of(const HttpHead& head);
/// The header tracestate if it has at most 512 visible characters and spaces, else nothing.
std::string tracestate_of(const HttpHead& head);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_CALL_H_
