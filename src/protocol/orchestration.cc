#include "protocol/orchestration.h"

#include <thread>

namespace chimere::protocol {

void append_piece(const Choice& part, Choice& whole) {
  whole.content += part.content;
  whole.reasoning += part.reasoning;
  for (const ToolCallPiece& call : part.tool_calls) {
    if (!call.name.empty() || whole.tool_calls.empty()) {
      whole.tool_calls.push_back(call);
    } else {
      whole.tool_calls.back().arguments += call.arguments;
    }
  }
  whole.has_logprobs = whole.has_logprobs || part.has_logprobs;
  whole.logprobs.insert(whole.logprobs.end(), part.logprobs.begin(), part.logprobs.end());
  if (!part.finish_reason.empty()) whole.finish_reason = part.finish_reason;
  whole.stop_text += part.stop_text;
  whole.context_full = whole.context_full || part.context_full;
}

std::optional<ApiError> ModelClient::chat_all(std::span<const ChatRequest> requests,
                                              std::span<ChatReply> out) {
  if (requests.size() == 1) return chat(requests[0], {}, out[0]);
  std::vector<std::optional<ApiError>> errors(requests.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      threads.emplace_back([&, i] { errors[i] = chat(requests[i], {}, out[i]); });
    }
  }
  for (auto& error : errors) {
    if (error) return std::move(error);
  }
  return std::nullopt;
}

}  // namespace chimere::protocol
