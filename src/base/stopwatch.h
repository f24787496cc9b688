#ifndef CHIMERE_BASE_STOPWATCH_H_
#define CHIMERE_BASE_STOPWATCH_H_

#include <chrono>
#include <functional>

namespace chimere {

/// A clock, which a simulation replaces.
using Now = std::function<std::chrono::steady_clock::time_point()>;

/// Measures the time since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace chimere

#endif  // CHIMERE_BASE_STOPWATCH_H_
