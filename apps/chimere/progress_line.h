// Progress of a command, on standard error.
#ifndef CHIMERE_APPS_CHIMERE_PROGRESS_LINE_H_
#define CHIMERE_APPS_CHIMERE_PROGRESS_LINE_H_

#include <iostream>
#include <string>

#include "base/settings.h"

namespace chimere::app {

/// One line that is updated in place and ended by the destructor; nothing with --quiet.
class ProgressLine {
 public:
  explicit ProgressLine(const Settings& settings) : quiet_(settings.get(settings::kQuiet)) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_) std::cerr << '\n';
  }

  void show(const std::string& text) {
    if (quiet_) return;
    std::cerr << '\r' << text;
    shown_ = true;
  }

 private:
  bool quiet_;
  bool shown_ = false;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_PROGRESS_LINE_H_
