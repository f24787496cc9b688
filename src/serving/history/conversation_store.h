// The history of conversations: one SQLite file, in which every API key has its own.
#ifndef CHIMERE_SERVING_HISTORY_CONVERSATION_STORE_H_
#define CHIMERE_SERVING_HISTORY_CONVERSATION_STORE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "protocol/history.h"

namespace chimere::serving {

using protocol::ConversationChange;
using protocol::ConversationInfo;
using protocol::StoredMessage;

/// What a list contains.
struct ConversationFilter {
  std::string search;                 ///< words, of which each must occur as a prefix; empty: any
  std::optional<std::string> folder;  ///< absent: any
  int64_t limit = 100;
};

/// Any thread; calls take turns. Every function takes the owner: the name of an API key, or empty
/// for clients without keys. Errors: kNotFound (the owner has no such conversation), kIo.
class ConversationStore {
 public:
  /// Creates the file, readable by its owner alone, and its folder.
  static Result<std::unique_ptr<ConversationStore>> open(const std::string& path);

  /// Pinned ones first, then the ones that were changed last.
  Result<std::vector<ConversationInfo>> list(const std::string& owner,
                                             const ConversationFilter& filter);
  Result<ConversationInfo> info(const std::string& owner, const std::string& id);
  /// All messages, oldest first.
  Result<std::vector<StoredMessage>> messages(const std::string& owner, const std::string& id);

  /// Creates the conversation if the owner has none of this id, and changes it.
  Result<void> put(const std::string& owner, const std::string& id,
                   const ConversationChange& change);
  /// Adds messages, or replaces those of the same ids.
  Result<void> put_messages(const std::string& owner, const std::string& id,
                            const std::vector<StoredMessage>& messages);
  /// Appends to a message that is being generated, whose content and reasoning have these sizes in
  /// bytes; what is stored already is not appended again. Errors: kInvalidArgument (a gap).
  Result<void> append(const std::string& owner, const std::string& id, const std::string& message,
                      int64_t content_at, std::string_view content, int64_t reasoning_at,
                      std::string_view reasoning);
  Result<StoredMessage> message(const std::string& owner, const std::string& id,
                                const std::string& message);
  /// Replaces text, data and completeness of the message with its id. Errors: also kNotFound (the
  /// conversation has none).
  Result<void> update_message(const std::string& owner, const std::string& id,
                              const StoredMessage& message);

  /// Overwrites what it deletes, in the file and in its journal.
  Result<void> erase(const std::string& owner, const std::string& id);
  /// Deletes a message and those that descend from it.
  Result<void> erase_message(const std::string& owner, const std::string& id,
                             const std::string& message);
  Result<void> erase_all(const std::string& owner);

 private:
  explicit ConversationStore(database::Database database) : database_(std::move(database)) {}

  Result<int64_t> row_of(const std::string& owner, const std::string& id);
  Result<void> touch(int64_t row);
  /// Brings the index of words up to date with the owner's messages.
  Result<void> index(const std::string& owner);
  Result<void> overwrite_deleted();
  Result<std::vector<ConversationInfo>> search(const std::string& owner,
                                               const ConversationFilter& filter);

  std::mutex mutex_;
  database::Database database_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HISTORY_CONVERSATION_STORE_H_
