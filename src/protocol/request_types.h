// The types of the bodies of requests. Internal to the module.
#ifndef CHIMERE_PROTOCOL_REQUEST_TYPES_H_
#define CHIMERE_PROTOCOL_REQUEST_TYPES_H_

#include "protocol/field_table.h"

namespace chimere::protocol {

extern const ObjectType<ChatRequest> kChatType;
extern const ObjectType<CompletionRequest> kCompletionType;
extern const ObjectType<EmbeddingsRequest> kEmbeddingsType;
extern const ObjectType<TokenizeRequest> kTokenizeType;
extern const ObjectType<DetokenizeRequest> kDetokenizeType;
extern const ObjectType<EngramRequest> kEngramType;

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_REQUEST_TYPES_H_
