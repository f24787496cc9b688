#include "serving/endpoints/orchestrated_chat.h"

#include <chrono>
#include <utility>

namespace chimere::serving {
namespace {

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

void OrchestratedChat::begin() {
  if (std::exchange(begun_, true)) return;
  ResponseStream& stream = *parts_.stream;
  stream.start_events(parts_.headers, std::string(parts_.writer->stream_type()));
  stream.event(parts_.writer->open({&whole_, 1}, 0));
}

void OrchestratedChat::step(std::string_view json) {
  if (!parts_.request.stream) return;
  const std::string events = parts_.writer->step(json);
  if (events.empty()) return;
  begin();
  parts_.stream->event(events);
}

void OrchestratedChat::piece(const protocol::Choice& part) {
  if (first_token_seconds_ == 0) first_token_seconds_ = seconds_since(began_time_);
  if (parts_.request.stream) {
    begin();
    parts_.stream->event(parts_.writer->piece(part));
  }
  protocol::append_piece(part, whole_);
}

void OrchestratedChat::run(protocol::ChatOrchestrator& orchestrator, protocol::ModelClient& model,
                           const std::function<void(const GenerationReport&)>& done) {
  protocol::OrchestratedAnswer answer;
  const auto error = orchestrator.answer(parts_.request, parts_.owner, model, *this, answer);
  GenerationReport report;
  report.id = parts_.writer->id();
  report.outcome = error ? std::string(error->code.name()) : whole_.finish_reason;
  report.status = error ? error->status() : 200;
  report.usage = answer.usage;
  report.first_token_seconds = first_token_seconds_;
  report.seconds = seconds_since(began_time_);
  const protocol::Timings timings = {report.seconds, first_token_seconds_,
                                     report.seconds - first_token_seconds_};
  ResponseStream& stream = *parts_.stream;
  if (!error && parts_.on_end) parts_.on_end({&whole_, 1}, answer.usage, timings);
  done(report);
  parts_.writer->set_orchestration(answer.metadata);
  if (parts_.request.stream && (begun_ || !error)) {
    begin();
    stream.event(error ? parts_.writer->fail(*error) : parts_.writer->close(answer.usage, timings));
    stream.end_events();
  } else if (error) {
    stream.respond(error_response(*error, parts_.headers, parts_.form));
  } else {
    stream.respond({200, parts_.writer->whole({&whole_, 1}, answer.usage, timings),
                    "application/json", parts_.headers});
  }
}

}  // namespace chimere::serving
