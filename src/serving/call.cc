#include "serving/call.h"

#include <algorithm>
#include <utility>

#include "serving/http_server.h"

namespace chimere::serving {
namespace {

/// A text as the value of a header: without line breaks and what is not ASCII.
std::string header_text(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c < 0x7F ? c : '?';
  return out;
}

}  // namespace

const std::string& Call::owner() const {
  static const std::string kAnonymous;
  return key ? key->name : kAnonymous;
}

std::string request_id_of(const HttpHead& head) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:";
  const std::string_view given = head.header("x-request-id");
  const bool valid = !given.empty() && given.size() <= 128 &&
                     given.find_first_not_of(kLetters) == std::string_view::npos;
  return valid ? std::string(given) : make_id("req_");
}

std::string traceparent_of(const HttpHead& head) {
  constexpr std::string_view kForm = "00-00000000000000000000000000000000-0000000000000000-00";
  const std::string_view given = head.header("traceparent");
  if (given.size() != kForm.size() || !given.starts_with("00-")) return "";
  for (size_t i = 0; i < given.size(); ++i) {
    const bool hex = (given[i] >= '0' && given[i] <= '9') || (given[i] >= 'a' && given[i] <= 'f');
    if (kForm[i] == '-' ? given[i] != '-' : !hex) return "";
  }
  const auto zero = [&](size_t at, size_t n) {
    return given.substr(at, n).find_first_not_of('0') == std::string_view::npos;
  };
  return zero(3, 32) || zero(36, 16) ? "" : std::string(given);
}

std::string tracestate_of(const HttpHead& head) {
  constexpr size_t kLongest = 512;
  const std::string_view given = head.header("tracestate");
  const auto visible = [](char c) { return c >= ' ' && c < 0x7F; };
  const bool valid = given.size() <= kLongest && std::ranges::all_of(given, visible);
  return valid ? std::string(given) : "";
}

Responder::Responder(Options options, Metrics& metrics, KeyUsage& usage)
    : options_(std::move(options)), metrics_(metrics), usage_(usage) {}

Headers Responder::extra_headers(const HttpHead& head) const {
  return cors_headers(options_.access, head);
}

Headers Responder::extra_headers(const Call& call) const {
  Headers out = extra_headers(call.request.head);
  out.emplace_back("X-Request-Id", call.request_id);
  if (call.form == protocol::ApiForm::kAnthropic) out.emplace_back("request-id", call.request_id);
  if (!call.traceparent.empty()) {
    out.emplace_back("traceparent", call.traceparent);
    if (!call.tracestate.empty()) out.emplace_back("tracestate", call.tracestate);
  }
  for (const protocol::Warning& w : call.warnings) {
    out.emplace_back("X-Chimere-Warning", header_text(w.message));
  }
  return out;
}

HttpResponse Responder::refuse(const HttpHead& head, const std::string& route,
                               protocol::ApiForm form, const protocol::ApiError& error,
                               Headers headers) {
  const std::string id = request_id_of(head);
  metrics_.count_request(route, error.status());
  options_.log(LogLine("refused")
                   .add("status", error.status())
                   .add("method", head.method)
                   .add("path", head.path.substr(0, 200))
                   .add("code", error.code.name())
                   .add("request_id", id));
  headers.emplace_back("X-Request-Id", id);
  return error_response(error, std::move(headers), form);
}

void Responder::respond(const CallPtr& call, HttpResponse response, const std::string& error_code) {
  for (auto& header : extra_headers(*call)) {
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
  if (call->on_error) return call->on_error(error);
  respond(call, error_response(error, {}, call->form), std::string(error.code.name()));
}

void Responder::finish(const CallPtr& call, const GenerationReport& report) {
  if (call->on_error) return;
  const HttpHead& head = call->request.head;
  const int64_t tokens = report.usage.prompt_tokens + report.usage.completion_tokens;
  if (call->counted) usage_.end(call->key.get(), tokens);
  metrics_.count_request(call->route, report.status);
  metrics_.count_response(report);
  LogLine line("request");
  line.add("status", report.status).add("method", head.method).add("path", call->route);
  line.add("peer", call->request.peer).add("request_id", call->request_id);
  // 00-TRACE-SPAN-FLAGS
  if (!call->traceparent.empty()) {
    line.add("trace_id", call->traceparent.substr(3, 32));
    line.add("parent_span_id", call->traceparent.substr(36, 16));
  }
  if (call->key) line.add("key", call->key->name);
  if (!call->ignored.empty()) line.add("ignored", call->ignored);
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
  options_.log(line);
}

}  // namespace chimere::serving
