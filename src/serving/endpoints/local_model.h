// The model of a call, for an orchestrator in this process: its chats are calls inside the call,
// with the same key and prefix cache, submitted to the same engine.
#ifndef CHIMERE_SERVING_ENDPOINTS_LOCAL_MODEL_H_
#define CHIMERE_SERVING_ENDPOINTS_LOCAL_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/orchestration.h"
#include "serving/call.h"

namespace chimere::serving {

class LocalModel final : public protocol::ModelClient {
 public:
  using MakeWriter = std::function<std::shared_ptr<protocol::GenerationWriter>(
      const std::vector<protocol::Warning>&)>;
  /// GeneratingEndpoint::chat().
  using Chat = std::function<void(const CallPtr&, protocol::ChatRequest, const MakeWriter&)>;

  /// `abandoned`: whether the client of the outer call is gone; polled. Any thread.
  LocalModel(CallPtr outer, Chat chat, std::function<bool()> abandoned)
      : outer_(std::move(outer)), chat_(std::move(chat)), abandoned_(std::move(abandoned)) {}

  std::string id() const override { return outer_->model->id; }
  std::optional<protocol::ApiError> chat(const protocol::ChatRequest& request,
                                         const OnPiece& on_piece,
                                         protocol::ChatReply& out) override;

 private:
  const CallPtr outer_;
  const Chat chat_;
  const std::function<bool()> abandoned_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_LOCAL_MODEL_H_
