// The types of the bodies of requests. Internal to the module.
#ifndef CHIMERE_PROTOCOL_REQUEST_TYPES_H_
#define CHIMERE_PROTOCOL_REQUEST_TYPES_H_

#include "protocol/admin.h"
#include "protocol/collections.h"
#include "protocol/field_table.h"
#include "protocol/history.h"
#include "protocol/rerank.h"

namespace chimere::protocol {

extern const ObjectType<ChatRequest> kChatType;
extern const ObjectType<MessagesRequest> kMessagesType;
extern const ObjectType<ResponsesRequest> kResponsesType;
extern const ObjectType<OllamaRequest> kOllamaChatType;
extern const ObjectType<OllamaRequest> kOllamaGenerateType;
extern const ObjectType<EmbeddingsRequest> kOllamaEmbedType;
extern const ObjectType<EmbeddingsRequest> kOllamaEmbeddingsType;
extern const ObjectType<ShowRequest> kOllamaShowType;
extern const ObjectType<PullRequest> kOllamaPullType;
extern const ObjectType<DeleteRequest> kOllamaDeleteType;
extern const ObjectType<CopyRequest> kOllamaCopyType;
extern const ObjectType<InfillRequest> kInfillType;
extern const ObjectType<MessagesRequest> kCountTokensType;
extern const ObjectType<CompletionRequest> kCompletionType;
extern const ObjectType<CompletionRequest> kLlamaCompletionType;
extern const ObjectType<EmbeddingsRequest> kEmbeddingsType;
extern const ObjectType<EmbeddingsRequest> kCohereEmbedType;
extern const ObjectType<RerankRequest> kRerankType;
extern const ObjectType<CohereRerankRequest> kCohereRerankType;
extern const ObjectType<ScoreRequest> kScoreType;
extern const ObjectType<TokenizeRequest> kTokenizeType;
extern const ObjectType<DetokenizeRequest> kDetokenizeType;
extern const ObjectType<EngramLookupRequest> kEngramLookupType;
extern const ObjectType<EngramRequest> kEngramType;
extern const ObjectType<ConversationChange> kConversationType;
extern const ObjectType<StoreMessagesRequest> kStoreMessagesType;
extern const ObjectType<AppendRequest> kAppendType;
extern const ObjectType<CreateCollectionRequest> kCreateCollectionType;
extern const ObjectType<AddDocumentsRequest> kAddDocumentsType;
extern const ObjectType<SearchCollectionRequest> kSearchCollectionType;
extern const ObjectType<CreateKeyRequest> kCreateKeyType;

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_REQUEST_TYPES_H_
