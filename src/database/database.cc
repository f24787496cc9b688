#include "database/database.h"

#include <sqlite3.h>

#include <utility>

namespace chimere::database {
namespace {

constexpr int kBusyMilliseconds = 10'000;

/// Where two connections change the mode of a new file at once, SQLite tells one of them "busy"
/// without waiting.
Result<void> use_write_ahead_log(Database& database) {
  constexpr int kPauseMilliseconds = 5;
  for (int waited = 0;; waited += kPauseMilliseconds) {
    Result<void> done = database.run("PRAGMA journal_mode = wal");
    const int status = sqlite3_errcode(database.handle()) & 0xff;
    if (done.ok() || status != SQLITE_BUSY || waited >= kBusyMilliseconds) return done;
    sqlite3_sleep(kPauseMilliseconds);
  }
}

}  // namespace

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

Result<Database> Database::open(const std::string& path, std::span<const Migration> migrations) {
  sqlite3* handle = nullptr;
  const int status =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (handle == nullptr)
    return Error{Error::Code::kOutOfMemory, "no memory to open the database " + path};
  Database database(handle);
  if (status != SQLITE_OK) {
    return Error{Error::Code::kIo,
                 "cannot open the database " + path + ": " + sqlite3_errmsg(handle)};
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  // A database file may be hostile: no code of its schema runs with side effects, damaged pages are
  // refused.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  CHIMERE_CHECK_OK(use_write_ahead_log(database));
  CHIMERE_CHECK_OK(database.run("PRAGMA synchronous = normal; PRAGMA foreign_keys = on;"));
  CHIMERE_CHECK_OK(database.migrate(migrations));
  return database;
}

Result<Statement> Database::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle(), sql.c_str(), static_cast<int>(sql.size()) + 1, &statement,
                         nullptr) != SQLITE_OK) {
    return last_error(handle());
  }
  return Statement(statement);
}

Result<void> Database::run(const std::string& sql) {
  if (sqlite3_exec(handle(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return last_error(handle());
  return {};
}

bool Database::has_moved() const {
  int moved = 0;
  const int status = sqlite3_file_control(handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return status == SQLITE_OK && moved != 0;
}

int64_t Database::changes() const { return sqlite3_changes64(handle()); }

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle()); }

Result<std::string> Database::check() {
  CHIMERE_TRY(Statement statement, prepare("PRAGMA integrity_check(1)"));
  CHIMERE_TRY(const bool row, statement.step());
  return row ? std::string(statement.text(0)) : std::string("no answer");
}

Result<void> Database::migrate(std::span<const Migration> migrations) {
  // Two programs may open a new file at once: the version is read with the write lock held.
  CHIMERE_TRY(Transaction transaction, Transaction::begin(*this));
  int64_t version = 0;
  {
    CHIMERE_TRY(Statement statement, prepare("PRAGMA user_version"));
    CHIMERE_TRY(const bool row, statement.step());
    if (row) version = statement.integer(0);
  }
  const auto wanted = static_cast<int64_t>(migrations.size());
  if (version < 0 || version > wanted) {
    const char* file = sqlite3_db_filename(handle(), "main");
    return Error{Error::Code::kUnsupported,
                 "the database " + std::string(file == nullptr ? "" : file) + " has version " +
                     std::to_string(version) + "; this program knows versions up to " +
                     std::to_string(wanted) + ": update it, or move the file away"};
  }
  if (version == wanted) return {};
  for (int64_t i = version; i < wanted; ++i)
    CHIMERE_CHECK_OK(run(migrations[static_cast<size_t>(i)].sql));
  CHIMERE_CHECK_OK(run("PRAGMA user_version = " + std::to_string(wanted)));
  return transaction.commit();
}

Result<Transaction> Transaction::begin(Database& database) {
  CHIMERE_CHECK_OK(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

// A rollback that fails has nothing to undo: SQLite has rolled back by itself.
Transaction::~Transaction() {
  if (database_ != nullptr)
    sqlite3_exec(database_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Result<void> Transaction::commit() {
  CHIMERE_CHECK_OK(database_->run("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace chimere::database
