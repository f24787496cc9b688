// Progress of a long copy or download, on standard error.
#ifndef CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_
#define CHIMERE_APPS_CHIMERE_TRANSFER_PROGRESS_H_

#include <cstdint>

#include "base/stopwatch.h"
#include "base/system.h"

namespace chimere::app {

/// On a terminal one line that is updated in place, otherwise a new line every ten seconds.
class TransferProgress {
 public:
  /// Prints nothing in the first `quiet` seconds, nor at all if the copy ends before.
  explicit TransferProgress(double quiet = 0);
  ~TransferProgress();
  TransferProgress(const TransferProgress&) = delete;
  TransferProgress& operator=(const TransferProgress&) = delete;

  /// `done` of `total` bytes are present. The rate excludes those present at the first call.
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
