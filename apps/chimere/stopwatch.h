#ifndef CHIMERE_APPS_CHIMERE_STOPWATCH_H_
#define CHIMERE_APPS_CHIMERE_STOPWATCH_H_

#include <chrono>

namespace chimere::app {

/// Measures the time since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_STOPWATCH_H_
