#include "protocol/reference.h"

#include "protocol/request_types.h"

namespace chimere::protocol {
namespace {

template <typename T, const auto& kType>
Endpoint endpoint(std::string_view path, std::string_view method = "POST") {
  Endpoint out{method, path, {}, [](std::string_view body, const Settings& defaults) {
                 T request;
                 if constexpr (requires { request.settings; }) request.settings = defaults;
                 return parse_body(kType, body, {.strict_fields = true}, request);
               }};
  kType.describe(out.fields);
  return out;
}

}  // namespace

std::vector<Endpoint> endpoints() {
  return {endpoint<ChatRequest, kChatType>("/v1/chat/completions"),
          endpoint<CompletionRequest, kCompletionType>("/v1/completions"),
          endpoint<ResponsesRequest, kResponsesType>("/v1/responses"),
          endpoint<MessagesRequest, kMessagesType>("/v1/messages"),
          endpoint<MessagesRequest, kCountTokensType>("/v1/messages/count_tokens"),
          endpoint<OllamaRequest, kOllamaChatType>("/api/chat"),
          endpoint<OllamaRequest, kOllamaGenerateType>("/api/generate"),
          endpoint<EmbeddingsRequest, kOllamaEmbedType>("/api/embed"),
          endpoint<EmbeddingsRequest, kOllamaEmbeddingsType>("/api/embeddings"),
          endpoint<ShowRequest, kOllamaShowType>("/api/show"),
          endpoint<PullRequest, kOllamaPullType>("/api/pull"),
          endpoint<DeleteRequest, kOllamaDeleteType>("/api/delete", "DELETE"),
          endpoint<CopyRequest, kOllamaCopyType>("/api/copy"),
          endpoint<EmbeddingsRequest, kEmbeddingsType>("/v1/embeddings"),
          endpoint<RerankRequest, kRerankType>("/v1/rerank"),
          endpoint<CohereRerankRequest, kCohereRerankType>("/v2/rerank"),
          endpoint<EmbeddingsRequest, kCohereEmbedType>("/v2/embed"),
          endpoint<ScoreRequest, kScoreType>("/v1/score"),
          endpoint<CompletionRequest, kLlamaCompletionType>("/completion"),
          endpoint<InfillRequest, kInfillType>("/infill"),
          endpoint<TokenizeRequest, kTokenizeType>("/tokenize"),
          endpoint<DetokenizeRequest, kDetokenizeType>("/detokenize"),
          endpoint<EngramRequest, kEngramType>("/v1/engram/{name}"),
          endpoint<EngramLookupRequest, kEngramLookupType>("/v1/engram/{name}/search"),
          endpoint<EngramLookupRequest, kEngramLookupType>("/v1/engram/{name}/predict"),
          endpoint<ConversationChange, kConversationType>("/v1/conversations/{id}"),
          endpoint<StoreMessagesRequest, kStoreMessagesType>("/v1/conversations/{id}/messages"),
          endpoint<AppendRequest, kAppendType>("/v1/conversations/{id}/append"),
          endpoint<CreateCollectionRequest, kCreateCollectionType>("/v1/collections"),
          endpoint<AddDocumentsRequest, kAddDocumentsType>("/v1/collections/{name}/documents"),
          endpoint<SearchCollectionRequest, kSearchCollectionType>("/v1/collections/{name}/search"),
          endpoint<CreateKeyRequest, kCreateKeyType>("/v1/keys")};
}

}  // namespace chimere::protocol
