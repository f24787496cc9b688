// Lists of conversations, and the search in them.
#include <algorithm>
#include <utility>

#include "serving/history/conversation_store.h"

namespace chimere::serving {
namespace {

using database::Statement;
using database::Transaction;

constexpr const char* kInfoColumns =
    "c.id, c.title, c.folder, c.pinned, c.leaf, c.data, c.created, c.updated, "
    "(SELECT count(*) FROM message m WHERE m.conversation = c.row)";

ConversationInfo info_of(const Statement& row) {
  ConversationInfo out;
  out.id = row.text(0);
  out.title = row.text(1);
  out.folder = row.text(2);
  out.pinned = row.integer(3) != 0;
  out.leaf = row.text(4);
  out.data = row.text(5);
  out.created = row.integer(6);
  out.updated = row.integer(7);
  out.messages = row.integer(8);
  return out;
}

/// The words as a query of FTS5: quoted, so that none is an operator, and each a prefix.
/// https://www.sqlite.org/fts5.html#full_text_query_syntax
std::string word_query(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (word.empty()) continue;
    if (!out.empty()) out += ' ';
    out += '"';
    for (const char c : word) {
      if (c == '\0') continue;
      out += c;
      if (c == '"') out += c;
    }
    out += "\"*";
  }
  return out;
}

/// A pattern of LIKE for texts that contain `text`; the escape is a backslash.
std::string containing(std::string_view text) {
  std::string out = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') out += '\\';
    out += c;
  }
  return out + "%";
}

}  // namespace

Result<ConversationInfo> ConversationStore::info(const std::string& owner, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(const int64_t row, row_of(owner, id));
  CHIMERE_TRY(Statement select, database_.prepare(std::string("SELECT ") + kInfoColumns +
                                                  " FROM conversation c WHERE c.row = ?1"));
  CHIMERE_CHECK_OK(select.bind(row));
  CHIMERE_TRY(const bool found, select.step());
  if (!found) return not_found("There is no conversation '" + id + "'.");
  return info_of(select);
}

Result<std::vector<ConversationInfo>> ConversationStore::list(const std::string& owner,
                                                              const ConversationFilter& filter) {
  const std::scoped_lock lock(mutex_);
  if (!word_query(filter.search).empty()) return search(owner, filter);
  CHIMERE_TRY(Statement select,
              database_.prepare(std::string("SELECT ") + kInfoColumns +
                                " FROM conversation c WHERE c.owner = ?1 AND (?2 OR c.folder = ?3) "
                                "ORDER BY c.pinned DESC, c.updated DESC LIMIT ?4"));
  CHIMERE_CHECK_OK(select.bind(owner, !filter.folder, filter.folder.value_or(""), filter.limit));
  std::vector<ConversationInfo> out;
  while (true) {
    CHIMERE_TRY(const bool found, select.step());
    if (!found) return out;
    out.push_back(info_of(select));
  }
}

Result<std::vector<ConversationInfo>> ConversationStore::search(const std::string& owner,
                                                                const ConversationFilter& filter) {
  CHIMERE_CHECK_OK(index(owner));
  // snippet() works in a query of the index alone; the best message of a conversation stands for
  // it.
  CHIMERE_TRY(Statement select,
              database_.prepare(
                  std::string("SELECT ") + kInfoColumns +
                  ", coalesce((SELECT snippet(words, 0, char(2), char(3), '…', 16) FROM words, "
                  "message m WHERE words MATCH ?2 AND m.row = words.rowid AND m.conversation = "
                  "c.row ORDER BY rank LIMIT 1), '') FROM conversation c WHERE c.owner = ?1 AND "
                  "(?3 OR c.folder = ?4) AND (c.title LIKE ?5 ESCAPE '\\' OR c.row IN (SELECT "
                  "conversation FROM message WHERE row IN (SELECT rowid FROM words WHERE words "
                  "MATCH ?2))) ORDER BY c.updated DESC LIMIT ?6"));
  CHIMERE_CHECK_OK(select.bind(owner, word_query(filter.search), !filter.folder,
                               filter.folder.value_or(""), containing(filter.search),
                               filter.limit));
  std::vector<ConversationInfo> out;
  while (true) {
    CHIMERE_TRY(const bool found, select.step());
    if (!found) return out;
    out.push_back(info_of(select));
    out.back().excerpt = select.text(9);
  }
}

Result<void> ConversationStore::index(const std::string& owner) {
  CHIMERE_TRY(Transaction transaction, Transaction::begin(database_));
  const std::string pending =
      "FROM message WHERE indexed = 0 AND conversation IN (SELECT row FROM conversation WHERE "
      "owner = ?1)";
  for (const std::string& sql :
       {"DELETE FROM words WHERE rowid IN (SELECT row " + pending + ")",
        "INSERT INTO words(rowid, text) SELECT row, content " + pending,
        std::string("UPDATE message SET indexed = 1 WHERE indexed = 0 AND conversation IN (SELECT "
                    "row FROM conversation WHERE owner = ?1)")}) {
    CHIMERE_TRY(Statement statement, database_.prepare(sql));
    CHIMERE_CHECK_OK(statement.bind(owner));
    CHIMERE_CHECK_OK(statement.run());
  }
  return transaction.commit();
}

}  // namespace chimere::serving
