// One SQLite database file: opened with a journal that survives a crash, brought to the current
// schema, and used by one thread at a time. https://www.sqlite.org/wal.html
#ifndef CHIMERE_DATABASE_DATABASE_H_
#define CHIMERE_DATABASE_DATABASE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "database/statement.h"

struct sqlite3;

namespace chimere::database {

/// One step of a schema: SQL statements that bring a database from the version before to the next
/// one. They run in one transaction, so that a crash leaves the version before.
struct Migration {
  const char* sql;
};

/// A connection. Several connections, also of several processes, may use one file: readers do not
/// wait for writers, a writer waits at most ten seconds for another. Not thread-safe: one
/// connection a thread, or a mutex around it.
class Database {
 public:
  /// Opens `path` (":memory:": a database that is not kept), creates it if it does not exist, and
  /// runs the migrations that it does not have yet: its `user_version` counts those that ran.
  /// Errors: a damaged file, a file that is no database, one of a newer version, a folder that
  /// cannot be written.
  static Result<Database> open(const std::string& path, std::span<const Migration> migrations);

  /// Compiles a statement. The SQL is the program's own; values are bound, never pasted.
  Result<Statement> prepare(const std::string& sql);
  /// Runs statements without parameters or rows.
  Result<void> run(const std::string& sql);
  /// Rows that the last INSERT, UPDATE or DELETE changed.
  int64_t changes() const;
  int64_t last_insert_id() const;
  /// Whether the file that was opened is no longer at its path: it was removed or replaced.
  bool has_moved() const;
  /// "ok", or what SQLite's integrity_check found.
  Result<std::string> check();

  sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  explicit Database(sqlite3* handle) : handle_(handle) {}
  Result<void> migrate(std::span<const Migration> migrations);

  std::unique_ptr<sqlite3, Close> handle_;
};

/// BEGIN IMMEDIATE until commit(); rolled back if destroyed before. The database must outlive it.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace chimere::database

#endif  // CHIMERE_DATABASE_DATABASE_H_
