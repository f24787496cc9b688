#include "text/json_stream.h"

#include <string_view>

namespace chimere::text {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_json_digit(char c) { return c >= '0' && c <= '9'; }
bool is_json_hex(char c) {
  return is_json_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

JsonStream::Step JsonStream::end_value() {
  if (levels_.empty()) return Step::kDone;
  state_ = State::kAfterItem;
  return Step::kMore;
}

JsonStream::Step JsonStream::begin_value(char c) {
  switch (c) {
    case '{':
      levels_ += c;
      state_ = State::kFirstKey;
      return Step::kMore;
    case '[':
      levels_ += c;
      state_ = State::kFirstItem;
      return Step::kMore;
    case '"':
      state_ = State::kString;
      return Step::kMore;
    case '-':
      state_ = State::kMinus;
      return Step::kMore;
    case '0':
      state_ = State::kZero;
      return Step::kMore;
    case 't':
      rest_ = "rue";
      break;
    case 'f':
      rest_ = "alse";
      break;
    case 'n':
      rest_ = "ull";
      break;
    default:
      if (!is_json_digit(c)) return Step::kError;
      state_ = State::kInteger;
      return Step::kMore;
  }
  state_ = State::kLiteral;
  return Step::kMore;
}

JsonStream::Step JsonStream::close(char c) {
  const char open = c == '}' ? '{' : '[';
  if (levels_.empty() || levels_.back() != open) return Step::kError;
  levels_.pop_back();
  return end_value();
}

JsonStream::Step JsonStream::number(char c) {
  const bool digit = is_json_digit(c);
  const bool exponent = c == 'e' || c == 'E';
  State next = state_;
  switch (state_) {
    case State::kMinus:
      if (!digit) return Step::kError;
      next = c == '0' ? State::kZero : State::kInteger;
      break;
    case State::kZero:
    case State::kInteger:
      if (digit && state_ == State::kInteger) break;
      if (c == '.') {
        next = State::kPoint;
      } else if (exponent) {
        next = State::kExponent;
      } else if (digit) {
        return Step::kError;
      } else {
        next = State::kAfterItem;
      }
      break;
    case State::kPoint:
      if (!digit) return Step::kError;
      next = State::kFraction;
      break;
    case State::kFraction:
      if (!digit) next = exponent ? State::kExponent : State::kAfterItem;
      break;
    case State::kExponent:
      if (!digit && c != '+' && c != '-') return Step::kError;
      next = digit ? State::kExponentDigits : State::kExponentSign;
      break;
    case State::kExponentSign:
      if (!digit) return Step::kError;
      next = State::kExponentDigits;
      break;
    default:
      if (!digit) next = State::kAfterItem;
      break;
  }
  if (next != State::kAfterItem) {
    state_ = next;
    return Step::kMore;
  }
  if (levels_.empty()) return Step::kAfter;
  const State before = state_;
  state_ = next;
  const Step step = push(c);
  if (step == Step::kError) state_ = before;
  return step;
}

bool JsonStream::may_end() const {
  return levels_.empty() && (state_ == State::kZero || state_ == State::kInteger ||
                             state_ == State::kFraction || state_ == State::kExponentDigits);
}

JsonStream::Step JsonStream::push(char c) {
  const bool space = is_json_space(c);
  switch (state_) {
    case State::kValue:
      return space ? Step::kMore : begin_value(c);
    case State::kFirstItem:
      if (space) return Step::kMore;
      return c == ']' ? close(c) : begin_value(c);
    case State::kFirstKey:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::kNextKey:
      if (space) return Step::kMore;
      if (c != '"') return Step::kError;
      state_ = State::kKey;
      return Step::kMore;
    case State::kColon:
      if (space) return Step::kMore;
      if (c != ':') return Step::kError;
      state_ = State::kValue;
      return Step::kMore;
    case State::kAfterItem:
      if (space) return Step::kMore;
      if (c == ',') {
        state_ = levels_.back() == '{' ? State::kNextKey : State::kValue;
        return Step::kMore;
      }
      return c == '}' || c == ']' ? close(c) : Step::kError;
    case State::kString:
    case State::kKey: {
      const bool key = state_ == State::kKey;
      if (c == '"') {
        if (!key) return end_value();
        state_ = State::kColon;
      } else if (c == '\\') {
        state_ = key ? State::kKeyEscape : State::kEscape;
      } else if (static_cast<uint8_t>(c) < 0x20) {
        return Step::kError;
      }
      return Step::kMore;
    }
    case State::kEscape:
    case State::kKeyEscape: {
      const State string = state_ == State::kEscape ? State::kString : State::kKey;
      if (hex_ > 0) {
        if (!is_json_hex(c)) return Step::kError;
        if (--hex_ == 0) state_ = string;
      } else if (c == 'u') {
        hex_ = 4;
      } else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
        state_ = string;
      } else {
        return Step::kError;
      }
      return Step::kMore;
    }
    case State::kLiteral:
      if (c != *rest_) return Step::kError;
      ++rest_;
      return *rest_ == '\0' ? end_value() : Step::kMore;
    default:
      return number(c);
  }
}

}  // namespace chimere::text
