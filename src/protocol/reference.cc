#include "protocol/reference.h"

#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

template <typename T, const auto& kType>
Endpoint endpoint(std::string_view path) {
  Endpoint out{"POST", path, {}, [](std::string_view body, const Settings& defaults) {
                 T request;
                 if constexpr (requires { request.settings; }) request.settings = defaults;
                 return parse_body(kType, body, {}, request);
               }};
  kType.describe(out.fields);
  return out;
}

}  // namespace

std::vector<Endpoint> endpoints() {
  return {endpoint<ChatRequest, kChatType>("/v1/chat/completions"),
          endpoint<CompletionRequest, kCompletionType>("/v1/completions"),
          endpoint<EmbeddingsRequest, kEmbeddingsType>("/v1/embeddings"),
          endpoint<TokenizeRequest, kTokenizeType>("/tokenize"),
          endpoint<DetokenizeRequest, kDetokenizeType>("/detokenize"),
          endpoint<EngramRequest, kEngramType>("/v1/engram/{name}")};
}

}  // namespace chimere::protocol
