// A compiled SQL statement: bind values, step through rows, read columns.
#ifndef CHIMERE_DATABASE_STATEMENT_H_
#define CHIMERE_DATABASE_STATEMENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace chimere::database {

/// Used as: bind all parameters in order, then `while (true) { CHIMERE_TRY(bool row, s.step()); if
/// (!row) break; ... }`. bind(...) starts over, so that one statement serves many executions. The
/// database must outlive it.
class Statement {
 public:
  /// Binds the parameters ?1, ?2, ... : integers, doubles, text, bytes (std::span<const std::byte>)
  /// or nullptr.
  template <typename... Values>
  Result<void> bind(const Values&... values) {
    reset();
    int index = 0;
    bool ok = true;
    ((ok = ok && bind_one(++index, values)), ...);
    return ok ? Result<void>() : failure();
  }

  /// Advances to the next row; false after the last one. Errors: a constraint that is violated, a
  /// full disk, a locked or damaged file.
  Result<bool> step();
  /// Steps to the end: for statements without rows.
  Result<void> run();

  int64_t integer(int column) const;
  double number(int column) const;
  /// Valid until the next step() or bind(). Null reads as empty.
  std::string_view text(int column) const;
  std::span<const std::byte> bytes(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  void reset();
  bool bind_one(int index, int64_t value);
  bool bind_one(int index, int value) { return bind_one(index, static_cast<int64_t>(value)); }
  bool bind_one(int index, bool value) { return bind_one(index, static_cast<int64_t>(value)); }
  bool bind_one(int index, double value);
  bool bind_one(int index, std::string_view value);
  bool bind_one(int index, const std::string& value) {
    return bind_one(index, std::string_view(value));
  }
  bool bind_one(int index, const char* value) { return bind_one(index, std::string_view(value)); }
  bool bind_one(int index, std::span<const std::byte> value);
  bool bind_one(int index, std::nullptr_t);
  Error failure() const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// The error of the connection's last call, as a sentence: "the database FILE ...: ...".
Error last_error(sqlite3* handle);

}  // namespace chimere::database

#endif  // CHIMERE_DATABASE_STATEMENT_H_
