// Resource limits of one rendering, and the exception that ends it.
#ifndef CHIMERE_TEXT_JINJA_BUDGET_H_
#define CHIMERE_TEXT_JINJA_BUDGET_H_

#include <cstdint>
#include <stdexcept>
#include <string>

namespace chimere::text::jinja {

/// Thrown and caught inside this folder only: Template turns it into an Error. (An evaluator is so
/// deeply recursive that errors as values would obscure its code.)
class TemplateError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const std::string& message) { throw TemplateError(message); }

struct Limits {
  int64_t steps = 20'000'000;        ///< evaluated nodes, loop rounds, compared elements
  int64_t bytes = int64_t{1} << 30;  ///< of all values created, freed or not
  int64_t output_bytes = int64_t{1} << 28;
  int depth = 400;  ///< of nested evaluation, macro calls included
};

/// Deepest nesting of lists and dictionaries, and of expressions and blocks in a template.
constexpr int kMaxNesting = 100;

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  void step(int64_t n = 1) {
    if (n > limits_.steps - steps_) fail("The template takes too many steps.");
    steps_ += n;
  }
  void bytes(int64_t n) {
    if (n > limits_.bytes - bytes_) fail("The template makes too much text.");
    bytes_ += n;
  }
  void output(int64_t total) const {
    if (total > limits_.output_bytes) fail("The output of the template is too long.");
  }

  /// Counts a level of recursion during its lifetime.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.depth) fail("The template nests too deeply.");
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
  int depth_ = 0;
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_BUDGET_H_
