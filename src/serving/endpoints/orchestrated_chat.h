// A chat that a ChatOrchestrator answers: its steps and its answer become the response.
#ifndef CHIMERE_SERVING_ENDPOINTS_ORCHESTRATED_CHAT_H_
#define CHIMERE_SERVING_ENDPOINTS_ORCHESTRATED_CHAT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "protocol/api_error.h"
#include "protocol/orchestration.h"
#include "serving/generation_job.h"
#include "serving/response_stream.h"

namespace chimere::serving {

class OrchestratedChat final : public protocol::AnswerSink {
 public:
  struct Parts {
    std::shared_ptr<ResponseStream> stream;
    protocol::ChatRequest request;
    std::string owner;  ///< name of the API key, or empty
    std::shared_ptr<protocol::GenerationWriter> writer;
    protocol::ApiForm form = protocol::ApiForm::kOpenAi;  ///< of errors
    Headers headers;
    decltype(GenerationSpec::on_end) on_end;  ///< may be empty
  };
  explicit OrchestratedChat(Parts parts) : parts_(std::move(parts)) {}

  /// Blocks until the response is complete. `done` is called before its end is sent.
  void run(protocol::ChatOrchestrator& orchestrator, protocol::ModelClient& model,
           const std::function<void(const GenerationReport&)>& done);

  void step(std::string_view json) override;
  void piece(const protocol::Choice& part) override;
  bool abandoned() const override { return parts_.stream->stopped(); }

 private:
  /// The head of a stream, before its first event: errors before it are plain responses.
  void begin();

  Parts parts_;
  const std::chrono::steady_clock::time_point began_time_ = std::chrono::steady_clock::now();
  bool begun_ = false;
  double first_token_seconds_ = 0;
  protocol::Choice whole_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ORCHESTRATED_CHAT_H_
