// What loading a model reports to the program that asked for it.
#ifndef CHIMERE_RUNTIME_LOAD_OBSERVER_H_
#define CHIMERE_RUNTIME_LOAD_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <string>

namespace chimere::runtime {

/// Any member may be empty. Called on the thread that loads, with whole sentences.
struct LoadObserver {
  std::function<void(const std::string& text)> notice;   ///< what is done, as expected
  std::function<void(const std::string& text)> warning;  ///< not what the settings ask for
  /// Bytes of weights copied to the GPU so far, and all of them.
  std::function<void(int64_t done, int64_t total)> upload;

  void say(const std::string& text) const {
    if (notice) notice(text);
  }
  void warn(const std::string& text) const {
    if (warning) warning(text);
  }
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_LOAD_OBSERVER_H_
