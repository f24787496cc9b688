// Errors as values. Libraries return Result<T>; they never print, exit or abort on bad input.
#ifndef CHIMERE_BASE_RESULT_H_
#define CHIMERE_BASE_RESULT_H_

#include <string>
#include <utility>
#include <variant>

namespace chimere {

/// A failure at a boundary (a file, a request, a device), as a sentence that the user can act on.
struct Error {  // NOLINT(clang-analyzer-core.uninitialized.Assign): every field has a value
  enum class Code {
    kInvalidArgument,  ///< an argument or option is invalid
    kInvalidData,      ///< a file or message is damaged, hostile or of an unknown type
    kNotFound,         ///< a file, model or name does not exist
    kOutOfMemory,      ///< a stated budget or the machine's memory is too small
    kOutOfSpace,       ///< a disk is full
    kUnsupported,      ///< valid, but not implemented here
    kIo,               ///< an operating-system call failed
    kCancelled,
  };
  Code code = Code::kInvalidArgument;
  std::string message;
};

// Values and errors convert implicitly: `return x;`, `return not_found("...");`.
// NOLINTBEGIN(google-explicit-constructor)

/// Either a T or an Error. `[[nodiscard]]`: an ignored error is a compile-time warning.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(v_); }
  const T& value() const& { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(v_); }
  Error&& error() && { return std::get<1>(std::move(v_)); }

 private:
  std::variant<T, Error> v_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}
  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  bool failed_ = false;
  Error error_;
};

// NOLINTEND(google-explicit-constructor)

using Status = Result<void>;

inline Error invalid_argument(std::string m) {
  return {Error::Code::kInvalidArgument, std::move(m)};
}
inline Error invalid_data(std::string m) { return {Error::Code::kInvalidData, std::move(m)}; }
inline Error not_found(std::string m) { return {Error::Code::kNotFound, std::move(m)}; }
inline Error out_of_memory(std::string m) { return {Error::Code::kOutOfMemory, std::move(m)}; }
inline Error unsupported(std::string m) { return {Error::Code::kUnsupported, std::move(m)}; }
inline Error io_error(std::string m) { return {Error::Code::kIo, std::move(m)}; }

/// `CHIMERE_TRY(auto x, f());` binds x to f()'s value or returns its error from the caller.
// A declaration cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define CHIMERE_CONCAT_INNER_(a, b) a##b
#define CHIMERE_CONCAT_(a, b) CHIMERE_CONCAT_INNER_(a, b)
#define CHIMERE_TRY_IMPL_(tmp, decl, expr)      \
  auto tmp = (expr);                            \
  if (!tmp.ok()) return std::move(tmp).error(); \
  decl = *std::move(tmp)
#define CHIMERE_TRY(decl, ...) \
  CHIMERE_TRY_IMPL_(CHIMERE_CONCAT_(chimere_try_, __LINE__), decl, (__VA_ARGS__))
// NOLINTEND(bugprone-macro-parentheses)
#define CHIMERE_CHECK_OK(...)                                           \
  do {                                                                  \
    auto chimere_status = (__VA_ARGS__);                                \
    if (!chimere_status.ok()) return std::move(chimere_status).error(); \
  } while (false)

}  // namespace chimere

#endif  // CHIMERE_BASE_RESULT_H_
