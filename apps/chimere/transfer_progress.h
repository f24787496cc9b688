// How far a copy of many bytes is, told on standard error.
#ifndef CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_
#define CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_

#include <cstdint>

#include "base/system.h"
#include "stopwatch.h"

namespace chimere::app {

/// On a terminal in place, else in a line every ten seconds.
class TransferProgress {
 public:
  /// Says nothing in the first `quiet` seconds, nor at the end if that comes before the first line.
  explicit TransferProgress(double quiet = 0);
  ~TransferProgress();
  TransferProgress(const TransferProgress&) = delete;
  TransferProgress& operator=(const TransferProgress&) = delete;

  /// `done` of `total` bytes are there. What was there at the first call was not copied now.
  void show(int64_t done, int64_t total);

 private:
  bool terminal_ = is_terminal(StandardStream::kError);
  double pause_;  ///< seconds between two lines
  double next_;   ///< when the next line is due
  bool shown_ = false;
  Stopwatch watch_;
  int64_t first_ = -1;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_
