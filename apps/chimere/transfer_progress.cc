#include "transfer_progress.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/terminal.h"
#include "terminal/progress_bar.h"

namespace chimere::app {

TransferProgress::TransferProgress(std::string what, double quiet, Unit unit,
                                   std::function<void(const std::string&)> line)
    : what_(std::move(what)),
      unit_(unit),
      line_(std::move(line)),
      pause_(terminal_ ? 0.2 : 10),
      next_(quiet > 0 ? std::max(quiet, pause_) : 0) {}

void TransferProgress::show(int64_t done, int64_t total) {
  if (first_ < 0) first_ = done;
  const double now = watch_.seconds();
  if (now < next_ && (done < total || !shown_)) return;
  next_ = now + pause_;
  shown_ = true;
  const terminal::Progress progress = {
      .what = what_,
      .done = done,
      .total = total,
      .bytes = unit_ == Unit::kBytes,
      .per_second = now > 0.5 ? static_cast<double>(done - first_) / now : 0};
  if (terminal_) {
    // The last column stays free, so that the terminal does not wrap.
    const int columns = terminal_size(StandardStream::kError).columns - 1;
    std::string text = terminal::progress_bar(progress, columns);
    text.resize(std::max(text.size(), static_cast<size_t>(std::max(columns, 0))), ' ');
    std::cerr << '\r' << text << std::flush;
  } else if (line_) {
    line_(terminal::progress_text(progress));
  } else {
    std::cerr << terminal::progress_text(progress) << '\n';
  }
}

TransferProgress::~TransferProgress() {
  if (terminal_ && shown_) std::cerr << '\n';
}

}  // namespace chimere::app
