#include "database/statement.h"

#include <sqlite3.h>

namespace chimere::database {

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

void Statement::reset() {
  sqlite3_reset(statement_.get());  // repeats the error of the last step, which was reported
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::bind_one(int index, int64_t value) {
  return sqlite3_bind_int64(statement_.get(), index, value) == SQLITE_OK;
}

bool Statement::bind_one(int index, double value) {
  return sqlite3_bind_double(statement_.get(), index, value) == SQLITE_OK;
}

// An empty string or span may have no address, which SQLite would take for null.
bool Statement::bind_one(int index, std::string_view value) {
  return sqlite3_bind_text64(statement_.get(), index, value.empty() ? "" : value.data(),
                             value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) == SQLITE_OK;
}

bool Statement::bind_one(int index, std::span<const std::byte> value) {
  if (value.empty()) return sqlite3_bind_zeroblob(statement_.get(), index, 0) == SQLITE_OK;
  return sqlite3_bind_blob64(statement_.get(), index, value.data(), value.size(),
                             SQLITE_TRANSIENT) == SQLITE_OK;
}

bool Statement::bind_one(int index, std::nullptr_t) {
  return sqlite3_bind_null(statement_.get(), index) == SQLITE_OK;
}

Error Statement::failure() const { return last_error(sqlite3_db_handle(statement_.get())); }

Result<bool> Statement::step() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) {
    sqlite3_reset(statement_.get());  // releases the read lock; the bindings stay
    return false;
  }
  Error error = failure();
  sqlite3_reset(statement_.get());
  return error;
}

Result<void> Statement::run() {
  for (;;) {
    CHIMERE_TRY(const bool row, step());
    if (!row) return {};
  }
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::number(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (text == nullptr) return {};
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::span<const std::byte> Statement::bytes(int column) const {
  const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Error last_error(sqlite3* handle) {
  const char* file = sqlite3_db_filename(handle, "main");
  const std::string name = file == nullptr || *file == '\0' ? "in memory" : file;
  Error error;
  switch (sqlite3_errcode(handle) & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      error.code = Error::Code::kInvalidData;
      break;
    case SQLITE_FULL:
      error.code = Error::Code::kOutOfSpace;
      break;
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      error.code = Error::Code::kOutOfMemory;
      break;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
      error.code = Error::Code::kInvalidArgument;
      break;
    case SQLITE_INTERRUPT:
      error.code = Error::Code::kCancelled;
      break;
    default:
      error.code = Error::Code::kIo;
  }
  error.message = "the database " + name + ": " + sqlite3_errmsg(handle);
  return error;
}

}  // namespace chimere::database
