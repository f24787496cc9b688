// Arithmetic by recursive descent, with a bound on the nesting.
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {
namespace {

constexpr int kMostNesting = 200;
constexpr size_t kMostText = 4096;

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  Result<double> parse() {
    const double value = sum();
    skip();
    if (error_.empty() && at_ < text_.size()) fail("an operator was expected");
    if (!error_.empty()) return invalid_argument(error_);
    if (!std::isfinite(value)) return invalid_argument("The result is not a finite number.");
    return value;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool take(std::string_view sign) {
    skip();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  double fail(const std::string& what) {
    if (error_.empty()) {
      error_ = "At character " + std::to_string(at_ + 1) + " of the expression " + what + ".";
    }
    at_ = text_.size();
    return 0;
  }

  double sum() {
    double value = product();
    while (error_.empty()) {
      if (take("+")) {
        value += product();
      } else if (take("-") || take("−")) {
        value -= product();
      } else {
        break;
      }
    }
    return value;
  }
  double product() {
    double value = sign();
    while (error_.empty()) {
      if (take("**")) return fail("'**' must be written as '^'");
      if (take("*") || take("×") || take("·")) {
        value *= sign();
      } else if (take("/") || take("÷")) {
        const double by = sign();
        if (by == 0 && error_.empty()) return fail("a division by zero was found");
        value /= by;
      } else if (take("%")) {
        const double by = sign();
        if (by == 0 && error_.empty()) return fail("a division by zero was found");
        value = std::fmod(value, by);
      } else {
        break;
      }
    }
    return value;
  }
  double sign() {
    if (++nesting_ > kMostNesting) return fail("too many levels were found");
    double value = 0;
    if (take("-") || take("−")) {
      value = -sign();
    } else if (take("+")) {
      value = sign();
    } else {
      value = power();
    }
    --nesting_;
    return value;
  }
  double power() {
    const double value = atom();
    return error_.empty() && take("^") ? std::pow(value, sign()) : value;
  }
  double atom() {
    if (take("(")) {
      const double value = sum();
      if (!take(")")) return fail("')' was expected");
      return value;
    }
    skip();
    if (at_ < text_.size() && ((text_[at_] >= '0' && text_[at_] <= '9') || text_[at_] == '.')) {
      double value = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
      if (error != std::errc()) return fail("a number was expected");
      at_ += static_cast<size_t>(end - begin);
      return value;
    }
    size_t end = at_;
    while (end < text_.size() && ((text_[end] >= 'a' && text_[end] <= 'z') ||
                                  (end > at_ && text_[end] >= '0' && text_[end] <= '9'))) {
      ++end;
    }
    const std::string_view name = text_.substr(at_, end - at_);
    if (name.empty()) return fail("a number, a name or '(' was expected");
    at_ = end;
    if (name == "pi") return std::numbers::pi;
    if (name == "e") return std::numbers::e;
    return function(name);
  }
  double function(std::string_view name) {
    if (!take("(")) return fail("'(' was expected behind '" + std::string(name) + "'");
    const double x = sum();
    const bool two = take(",");
    const double y = two ? sum() : 0;
    if (!take(")")) return fail("')' was expected");
    if (two) {
      if (name == "min") return std::fmin(x, y);
      if (name == "max") return std::fmax(x, y);
      if (name == "pow") return std::pow(x, y);
    }
    struct Function {
      std::string_view name;
      double (*of)(double);
    };
    static constexpr auto kFunctions = std::to_array<Function>({
        {"sqrt", [](double v) { return std::sqrt(v); }},
        {"abs", [](double v) { return std::fabs(v); }},
        {"floor", [](double v) { return std::floor(v); }},
        {"ceil", [](double v) { return std::ceil(v); }},
        {"round", [](double v) { return std::round(v); }},
        {"ln", [](double v) { return std::log(v); }},
        {"log10", [](double v) { return std::log10(v); }},
        {"exp", [](double v) { return std::exp(v); }},
        {"sin", [](double v) { return std::sin(v); }},
        {"cos", [](double v) { return std::cos(v); }},
        {"tan", [](double v) { return std::tan(v); }},
    });
    for (const Function& f : kFunctions) {
      if (f.name == name && !two) return f.of(x);
    }
    return fail("no function '" + std::string(name) + "' of that many values was found");
  }

  const std::string_view text_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::string error_;
};

}  // namespace

Result<double> evaluate(std::string_view expression) {
  if (expression.size() > kMostText) {
    return invalid_argument("The expression is longer than 4,096 characters.");
  }
  return ExpressionParser(expression).parse();
}

}  // namespace chimere::orchestrator
