#include <map>
#include <string>
#include <utility>

#include "protocol/generation_writer.h"

namespace chimere::protocol {
namespace {

class OpenAiWriter final : public GenerationWriter {
 public:
  OpenAiWriter(ResponseHead head, bool chat, bool include_usage)
      : head_(std::move(head)), chat_(chat), include_usage_(include_usage) {}

  const std::string& id() const override { return head_.id; }

  std::string open(std::span<const Choice> choices, int64_t /*prompt_tokens*/) override {
    std::string out;
    for (const Choice& choice : choices) {
      if (chat_) {
        out += sse_event(chat_role_chunk(head_, choice.index, include_usage_));
      } else if (!choice.content.empty()) {
        out += sse_event(completion_chunk(head_, choice, include_usage_));
      }
    }
    return out;
  }

  std::string piece(const Choice& part) override {
    const bool plain = !part.content.empty() && part.reasoning.empty() && part.tool_calls.empty() &&
                       !part.has_logprobs && part.finish_reason.empty();
    if (plain) return sse_event(text_chunks(part.index).chunk(part.content));
    return sse_event(chat_ ? chat_chunk(head_, part, include_usage_)
                           : completion_chunk(head_, part, include_usage_));
  }

  std::string step(std::string_view json) override {
    return chat_ ? sse_event(chat_step_chunk(head_, "step", json, include_usage_)) : "";
  }

  void set_orchestration(std::string_view json) override { head_.orchestration = json; }

  std::string close(const Usage& usage, const Timings& /*timings*/) override {
    std::string out;
    if (!head_.orchestration.empty()) {
      out = sse_event(chat_step_chunk(head_, "", head_.orchestration, include_usage_));
    }
    if (include_usage_) {
      out +=
          sse_event(chat_ ? chat_usage_chunk(head_, usage) : completion_usage_chunk(head_, usage));
    }
    return out.append(kSseDone);
  }

  std::string fail(const ApiError& error) override {
    return sse_event(error_body(error)).append(kSseDone);
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage,
                    const Timings& /*timings*/) override {
    return chat_ ? chat_response(head_, choices, usage)
                 : completion_response(head_, choices, usage);
  }

 private:
  const TextChunks& text_chunks(int64_t index) {
    auto found = text_chunks_.find(index);
    if (found == text_chunks_.end()) {
      found = text_chunks_.emplace(index, TextChunks(head_, chat_, index, include_usage_)).first;
    }
    return found->second;
  }

  ResponseHead head_;
  const bool chat_;
  const bool include_usage_;
  std::map<int64_t, TextChunks> text_chunks_;
};

}  // namespace

std::unique_ptr<GenerationWriter> openai_writer(ResponseHead head, bool chat, bool include_usage) {
  return std::make_unique<OpenAiWriter>(std::move(head), chat, include_usage);
}

}  // namespace chimere::protocol
