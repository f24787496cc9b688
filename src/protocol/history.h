// The history of conversations as the API has it: pure data, and its JSON.
#ifndef CHIMERE_PROTOCOL_HISTORY_H_
#define CHIMERE_PROTOCOL_HISTORY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// A conversation without its messages. Ids are the client's: 1 to 64 letters, digits, '-' and '_'.
struct ConversationInfo {
  std::string id = {};
  std::string title = {};
  std::string folder = {};  ///< a name; empty: in none
  bool pinned = false;
  std::string leaf = {};     ///< id of the last message of the branch that is shown
  std::string data = {};     ///< further fields of the client as a JSON object, or empty
  int64_t created = 0;       ///< milliseconds since 1970
  int64_t updated = 0;       ///< the same, of the last change
  int64_t messages = 0;      ///< number of them
  std::string excerpt = {};  ///< of a search: text with the words found between \x02 and \x03
};

/// Messages form a tree: an edited or regenerated message is another child of the same parent.
struct StoredMessage {
  std::string id = {};
  std::string parent = {};  ///< id; empty: a first message
  std::string role = {};    ///< "user", "assistant", "system" or "tool"
  std::string content = {};
  std::string reasoning = {};
  std::string data = {};  ///< further fields of the client as a JSON object, or empty
  int64_t created = 0;    ///< milliseconds since 1970; 0: when it is stored
  bool complete = true;   ///< false while it is being generated
};

/// What an update changes; absent fields stay.
struct ConversationChange {
  std::optional<std::string> title = {};
  std::optional<std::string> folder = {};
  std::optional<std::string> leaf = {};
  std::optional<std::string> data = {};
  std::optional<bool> pinned = {};
};

struct StoreMessagesRequest {
  std::vector<StoredMessage> messages = {};
};

/// A part of a message that is being generated.
struct AppendRequest {
  std::string message = {};  ///< id
  std::string content = {};
  std::string reasoning = {};
  int64_t content_at = 0;    ///< bytes of the content before this part
  int64_t reasoning_at = 0;  ///< bytes of the reasoning before this part
};

/// Whether `id` can name a conversation or a message.
bool is_history_id(std::string_view id);

std::optional<ApiError> parse_conversation(std::string_view body, const RequestLimits& limits,
                                           ConversationChange& out);
std::optional<ApiError> parse_messages(std::string_view body, const RequestLimits& limits,
                                       StoreMessagesRequest& out);
std::optional<ApiError> parse_append(std::string_view body, const RequestLimits& limits,
                                     AppendRequest& out);

std::string conversation_list(std::span<const ConversationInfo> conversations);
std::string conversation(const ConversationInfo& info, std::span<const StoredMessage> messages);
std::string conversation_info(const ConversationInfo& info);
std::string conversation_deleted(std::string_view id);
std::string history_stored(std::string_view id);
/// One message, with its text as it is now.
std::string conversation_message(const StoredMessage& message);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_HISTORY_H_
