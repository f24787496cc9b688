// Progress of something long, on standard error: copies, downloads, indexes.
#ifndef CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_
#define CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/stopwatch.h"
#include "base/system.h"

namespace chimere::app {

/// On a terminal a bar that is updated in place, otherwise a new line every ten seconds.
class TransferProgress {
 public:
  enum class Unit { kBytes, kThings };

  /// `what` begins the line: "Pulling". Prints nothing in the first `quiet` seconds, nor at all if
  /// the work ends before. `line` writes the lines where there is no terminal, instead of standard
  /// error.
  explicit TransferProgress(std::string what, double quiet = 0, Unit unit = Unit::kBytes,
                            std::function<void(const std::string&)> line = {});
  ~TransferProgress();
  TransferProgress(const TransferProgress&) = delete;
  TransferProgress& operator=(const TransferProgress&) = delete;

  /// `done` of `total` are present; `total` 0: unknown. The rate excludes those present at the
  /// first call.
  void show(int64_t done, int64_t total);

 private:
  std::string what_;
  Unit unit_;
  std::function<void(const std::string&)> line_;
  bool terminal_ = is_terminal(StandardStream::kError);
  double pause_;  ///< seconds between two lines
  double next_;   ///< when the next line is due
  bool shown_ = false;
  Stopwatch watch_;
  int64_t first_ = -1;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_
