// Checks one JSON value byte by byte.
#ifndef CHIMERE_TEXT_JSON_STREAM_H_
#define CHIMERE_TEXT_JSON_STREAM_H_

#include <cstdint>
#include <string>

namespace chimere::text {

/// Follows a JSON value and finds its end. Memory grows by a byte with each level of nesting.
class JsonStream {
 public:
  enum class Step {
    kMore,   ///< the byte belongs to the value
    kDone,   ///< the byte completes the value
    kAfter,  ///< the value was complete before this byte, which is not part of it (numbers)
    kError,  ///< no JSON value continues so; the state is unchanged
  };

  /// White space before the value belongs to it. Not to be called after kDone or kAfter.
  Step push(char c);
  /// Whether the bytes so far are a value that may end here: a complete number.
  bool may_end() const;
  bool in_string() const { return state_ == State::kString || state_ == State::kKey; }
  /// Whether nothing but white space was read.
  bool empty() const { return state_ == State::kValue && levels_.empty(); }

 private:
  enum class State {
    kValue,         ///< before a value
    kFirstItem,     ///< behind [
    kFirstKey,      ///< behind {
    kNextKey,       ///< behind a comma of an object
    kColon,         ///< behind a key
    kAfterItem,     ///< behind a value inside a container
    kString,        ///< in a string that is a value
    kKey,           ///< in a key
    kEscape,        ///< behind a backslash of a value
    kKeyEscape,     ///< behind a backslash of a key
    kMinus,         ///< numbers: behind -
    kZero,          ///< behind a leading 0
    kInteger,       ///< in the digits before the point
    kPoint,         ///< behind the point
    kFraction,      ///< in the digits behind the point
    kExponent,      ///< behind e
    kExponentSign,  ///< behind the sign of the exponent
    kExponentDigits,
    kLiteral,  ///< in true, false or null
  };
  Step begin_value(char c);
  Step close(char c);
  Step end_value();
  Step number(char c);

  State state_ = State::kValue;
  std::string levels_;          ///< '{' or '[' for each open container
  const char* rest_ = nullptr;  ///< of a literal
  int hex_ = 0;                 ///< hexadecimal digits of an escape that are missing
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_JSON_STREAM_H_
