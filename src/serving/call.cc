#include "serving/call.h"

#include <utility>

#include "serving/http_server.h"
#include "serving/log_line.h"

namespace chimere::serving {

const std::string& Call::owner() const {
  static const std::string kAnonymous;
  return key ? key->name : kAnonymous;
}

Responder::Responder(Options options, Metrics& metrics, KeyUsage& usage)
    : options_(std::move(options)), metrics_(metrics), usage_(usage) {}

Headers Responder::extra_headers(const HttpHead& head) const {
  return cors_headers(options_.access, head);
}

HttpResponse Responder::refuse(const HttpHead& head, const std::string& route,
                               const protocol::ApiError& error, Headers headers) {
  metrics_.count_request(route, error.status());
  options_.log(LogLine("refused")
                   .add("status", error.status())
                   .add("method", head.method)
                   .add("path", head.path.substr(0, 200))
                   .add("code", error.code.name())
                   .text());
  return error_response(error, std::move(headers));
}

void Responder::respond(const CallPtr& call, HttpResponse response, const std::string& error_code) {
  for (auto& header : extra_headers(call->request.head)) {
    response.headers.push_back(std::move(header));
  }
  GenerationReport report;
  report.status = response.status;
  report.outcome = error_code;
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - call->began).count();
  finish(call, report);
  call->stream->respond(std::move(response));
}

void Responder::respond(const CallPtr& call, const protocol::ApiError& error) {
  respond(call, error_response(error, {}), std::string(error.code.name()));
}

void Responder::finish(const CallPtr& call, const GenerationReport& report) {
  const HttpHead& head = call->request.head;
  if (call->counted) usage_.end(call->key.get());
  metrics_.count_request(call->route, report.status);
  metrics_.count_response(report);
  LogLine line("request");
  line.add("status", report.status).add("method", head.method).add("path", call->route);
  line.add("peer", call->request.peer);
  if (call->key) line.add("key", call->key->name);
  if (report.status >= 400 && !report.outcome.empty()) line.add("code", report.outcome);
  if (!report.id.empty()) {
    line.add("id", report.id).add("outcome", report.outcome);
    line.add("prompt_tokens", report.usage.prompt_tokens);
    line.add("cached_tokens", report.usage.cached_tokens);
    line.add("completion_tokens", report.usage.completion_tokens);
    line.add_seconds("first_token_ms", report.first_token_seconds);
  }
  line.add_seconds("ms", report.seconds);
  if (options_.log_prompts && head.method == "POST") line.add("body", call->request.body);
  options_.log(line.text());
}

}  // namespace chimere::serving
