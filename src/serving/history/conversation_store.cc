#include "serving/history/conversation_store.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <utility>

namespace chimere::serving {
namespace {

using database::Database;
using database::Migration;
using database::Statement;
using database::Transaction;

/// A message of the table "words" has the row number of the message that it indexes.
constexpr std::array<Migration, 1> kHistorySchema = {{{
    "CREATE TABLE conversation("
    "  row INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL DEFAULT "
    "'',"
    "  folder TEXT NOT NULL DEFAULT '', pinned INTEGER NOT NULL DEFAULT 0,"
    "  leaf TEXT NOT NULL DEFAULT '', data TEXT NOT NULL DEFAULT '',"
    "  created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE(owner, id));"
    "CREATE INDEX conversation_by_time ON conversation(owner, pinned, updated);"
    "CREATE TABLE message("
    "  row INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, id TEXT NOT NULL,"
    "  parent TEXT NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, reasoning TEXT NOT NULL,"
    "  data TEXT NOT NULL, created INTEGER NOT NULL, complete INTEGER NOT NULL,"
    "  indexed INTEGER NOT NULL DEFAULT 0, UNIQUE(conversation, id));"
    "CREATE INDEX message_not_indexed ON message(conversation) WHERE indexed = 0;"
    "CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');",
}}};

int64_t now_in_milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Error no_conversation(const std::string& id) {
  return not_found("There is no conversation '" + id + "'.");
}

Error no_message(const std::string& id) {
  return not_found("The conversation has no message '" + id + "'.");
}

constexpr const char* kMessageColumns =
    "id, parent, role, content, reasoning, data, created, complete";

StoredMessage message_of(const Statement& row) {
  StoredMessage out;
  out.id = row.text(0);
  out.parent = row.text(1);
  out.role = row.text(2);
  out.content = row.text(3);
  out.reasoning = row.text(4);
  out.data = row.text(5);
  out.created = row.integer(6);
  out.complete = row.integer(7) != 0;
  return out;
}

/// Runs a statement that returns no rows.
template <typename... Values>
Result<void> execute(Database& database, const std::string& sql, const Values&... values) {
  CHIMERE_TRY(Statement statement, database.prepare(sql));
  CHIMERE_CHECK_OK(statement.bind(values...));
  return statement.run();
}

}  // namespace

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return io_error("Cannot create the folder of " + path + ": " + error.message() + ".");
  CHIMERE_TRY(Database database, Database::open(path, kHistorySchema));
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, error);
  if (error)
    return io_error("Cannot restrict the access to " + path + ": " + error.message() + ".");
  CHIMERE_CHECK_OK(database.run("PRAGMA secure_delete = ON"));
  return std::unique_ptr<ConversationStore>(new ConversationStore(std::move(database)));
}

Result<int64_t> ConversationStore::row_of(const std::string& owner, const std::string& id) {
  CHIMERE_TRY(Statement find,
              database_.prepare("SELECT row FROM conversation WHERE owner = ?1 AND id = ?2"));
  CHIMERE_CHECK_OK(find.bind(owner, id));
  CHIMERE_TRY(const bool found, find.step());
  if (!found) return no_conversation(id);
  return find.integer(0);
}

Result<void> ConversationStore::touch(int64_t row) {
  return execute(database_, "UPDATE conversation SET updated = ?2 WHERE row = ?1", row,
                 now_in_milliseconds());
}

Result<void> ConversationStore::put(const std::string& owner, const std::string& id,
                                    const ConversationChange& change) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
  const int64_t now = now_in_milliseconds();
  CHIMERE_CHECK_OK(execute(database_,
                           "INSERT INTO conversation(owner, id, created, updated) "
                           "VALUES(?1, ?2, ?3, ?3) ON CONFLICT DO NOTHING",
                           owner, id, now));
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  const auto set = [&](const char* column, const auto& value) -> Result<void> {
    if (!value) return {};
    return execute(database_,
                   "UPDATE conversation SET " + std::string(column) + " = ?2 WHERE row = ?1", row,
                   *value);
  };
  CHIMERE_CHECK_OK(set("title", change.title));
  CHIMERE_CHECK_OK(set("folder", change.folder));
  CHIMERE_CHECK_OK(set("leaf", change.leaf));
  CHIMERE_CHECK_OK(set("data", change.data));
  CHIMERE_CHECK_OK(set("pinned", change.pinned));
  return transaction.commit();
}

Result<void> ConversationStore::put_messages(const std::string& owner, const std::string& id,
                                             const std::vector<StoredMessage>& messages) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  CHIMERE_TRY(Statement put,
              database_.prepare(
                  "INSERT INTO message(conversation, id, parent, role, content, reasoning, data, "
                  "created, complete) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
                  "ON CONFLICT(conversation, id) DO UPDATE SET parent = excluded.parent, "
                  "role = excluded.role, content = excluded.content, reasoning = "
                  "excluded.reasoning, data = excluded.data, created = excluded.created, "
                  "complete = excluded.complete, indexed = 0"));
  for (const StoredMessage& m : messages) {
    const int64_t created = m.created > 0 ? m.created : now_in_milliseconds();
    CHIMERE_CHECK_OK(
        put.bind(row, m.id, m.parent, m.role, m.content, m.reasoning, m.data, created, m.complete));
    CHIMERE_CHECK_OK(put.run());
  }
  CHIMERE_CHECK_OK(touch(row));
  return transaction.commit();
}

Result<void> ConversationStore::append(const std::string& owner, const std::string& id,
                                       const std::string& message, int64_t content_at,
                                       std::string_view content, int64_t reasoning_at,
                                       std::string_view reasoning) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  int64_t message_row = 0;
  {
    CHIMERE_TRY(Statement find, database_.prepare("SELECT row, length(CAST(content AS BLOB)), "
                                                  "length(CAST(reasoning AS BLOB)) FROM message "
                                                  "WHERE conversation = ?1 AND id = ?2"));
    CHIMERE_CHECK_OK(find.bind(row, message));
    CHIMERE_TRY(const bool found, find.step());
    if (!found) return no_message(message);
    message_row = find.integer(0);
    // A repeated request brings bytes that are there.
    const auto leave_new = [](int64_t at, int64_t stored, std::string_view& text) {
      if (at < 0 || at > stored) return false;
      text.remove_prefix(std::min(text.size(), static_cast<size_t>(stored - at)));
      return true;
    };
    if (!leave_new(content_at, find.integer(1), content) ||
        !leave_new(reasoning_at, find.integer(2), reasoning)) {
      return invalid_argument("The message is shorter; send it as a whole.");
    }
  }
  CHIMERE_CHECK_OK(execute(database_,
                           "UPDATE message SET content = content || ?2, reasoning = reasoning || "
                           "?3, indexed = 0 WHERE row = ?1",
                           message_row, content, reasoning));
  CHIMERE_CHECK_OK(touch(row));
  return transaction.commit();
}

Result<std::vector<StoredMessage>> ConversationStore::messages(const std::string& owner,
                                                               const std::string& id) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  CHIMERE_TRY(Statement select,
              database_.prepare(std::string("SELECT ") + kMessageColumns +
                                " FROM message WHERE conversation = ?1 ORDER BY row"));
  CHIMERE_CHECK_OK(select.bind(row));
  std::vector<StoredMessage> out;
  while (true) {
    CHIMERE_TRY(const bool found, select.step());
    if (!found) return out;
    out.push_back(message_of(select));
  }
}

Result<StoredMessage> ConversationStore::message(const std::string& owner, const std::string& id,
                                                 const std::string& message) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  CHIMERE_TRY(Statement select,
              database_.prepare(std::string("SELECT ") + kMessageColumns +
                                " FROM message WHERE conversation = ?1 AND id = ?2"));
  CHIMERE_CHECK_OK(select.bind(row, message));
  CHIMERE_TRY(const bool found, select.step());
  if (!found) return no_message(message);
  return message_of(select);
}

Result<void> ConversationStore::update_message(const std::string& owner, const std::string& id,
                                               const StoredMessage& message) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  CHIMERE_CHECK_OK(execute(database_,
                           "UPDATE message SET content = ?3, reasoning = ?4, data = ?5, complete = "
                           "?6, indexed = 0 WHERE conversation = ?1 AND id = ?2",
                           row, message.id, message.content, message.reasoning, message.data,
                           message.complete));
  if (database_.changes() == 0) return no_message(message.id);
  CHIMERE_CHECK_OK(touch(row));
  return transaction.commit();
}

Result<void> ConversationStore::overwrite_deleted() {
  // A deletion from the index of words is an entry of its own until segments are merged, and the
  // journal keeps pages as they were until it is emptied.
  CHIMERE_CHECK_OK(database_.run("INSERT INTO words(words) VALUES('optimize')"));
  CHIMERE_TRY(Statement checkpoint, database_.prepare("PRAGMA wal_checkpoint(TRUNCATE)"));
  CHIMERE_CHECK_OK(checkpoint.bind());
  return checkpoint.run();
}

Result<void> ConversationStore::erase(const std::string& owner, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  {
    CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
    CHIMERE_TRY(const int64_t row, row_of(owner, id));
    CHIMERE_CHECK_OK(execute(
        database_,
        "DELETE FROM words WHERE rowid IN (SELECT row FROM message WHERE conversation = ?1)", row));
    CHIMERE_CHECK_OK(execute(database_, "DELETE FROM message WHERE conversation = ?1", row));
    CHIMERE_CHECK_OK(execute(database_, "DELETE FROM conversation WHERE row = ?1", row));
    CHIMERE_CHECK_OK(transaction.commit());
  }
  return overwrite_deleted();
}

Result<void> ConversationStore::erase_message(const std::string& owner, const std::string& id,
                                              const std::string& message) {
  const std::scoped_lock lock(mutex_);
  {
    CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
    CHIMERE_TRY(const int64_t row, row_of(owner, id));
    // UNION, not UNION ALL: ends even if the client made a circle of parents.
    const std::string descendants =
        "WITH RECURSIVE gone(id) AS (SELECT ?2 UNION SELECT message.id FROM message, gone WHERE "
        "message.conversation = ?1 AND message.parent = gone.id) ";
    CHIMERE_CHECK_OK(execute(database_,
                             descendants +
                                 "DELETE FROM words WHERE rowid IN (SELECT row FROM message WHERE "
                                 "conversation = ?1 AND id IN (SELECT id FROM gone))",
                             row, message));
    CHIMERE_CHECK_OK(execute(database_,
                             descendants +
                                 "DELETE FROM message WHERE conversation = ?1 AND id IN (SELECT id "
                                 "FROM gone)",
                             row, message));
    CHIMERE_CHECK_OK(touch(row));
    CHIMERE_CHECK_OK(transaction.commit());
  }
  return overwrite_deleted();
}

Result<void> ConversationStore::erase_all(const std::string& owner) {
  const std::scoped_lock lock(mutex_);
  {
    CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
    const std::string of_owner = "(SELECT row FROM conversation WHERE owner = ?1)";
    CHIMERE_CHECK_OK(execute(database_,
                             "DELETE FROM words WHERE rowid IN (SELECT row FROM message WHERE "
                             "conversation IN " +
                                 of_owner + ")",
                             owner));
    CHIMERE_CHECK_OK(
        execute(database_, "DELETE FROM message WHERE conversation IN " + of_owner, owner));
    CHIMERE_CHECK_OK(execute(database_, "DELETE FROM conversation WHERE owner = ?1", owner));
    CHIMERE_CHECK_OK(transaction.commit());
  }
  return overwrite_deleted();
}

}  // namespace chimere::serving
