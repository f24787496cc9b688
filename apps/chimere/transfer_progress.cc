#include "transfer_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>

#include "base/byte_amount.h"
#include "command.h"

namespace chimere::app {

TransferProgress::TransferProgress(double quiet)
    : pause_(terminal_ ? 0.2 : 10), next_(quiet > 0 ? std::max(quiet, pause_) : 0) {}

void TransferProgress::show(int64_t done, int64_t total) {
  if (first_ < 0) first_ = done;
  const double now = watch_.seconds();
  if (now < next_ && (done < total || !shown_)) return;
  next_ = now + pause_;
  shown_ = true;
  const double rate = now > 0.5 ? static_cast<double>(done - first_) / now : 0;
  std::string text = fmt::format("{} of {}", human_bytes(static_cast<double>(done)),
                                 human_bytes(static_cast<double>(total)));
  if (total > 0) {
    text +=
        fmt::format(" ({:.0f}%)", 100.0 * static_cast<double>(done) / static_cast<double>(total));
  }
  if (rate > 0) {
    text += fmt::format(", {}/s, {:.0f} s left", human_bytes(rate),
                        static_cast<double>(total - done) / rate);
  }
  if (terminal_) {
    std::cerr << fmt::format("\r{:70}", text) << std::flush;
  } else {
    std::cerr << text << '\n';
  }
}

TransferProgress::~TransferProgress() {
  if (terminal_ && shown_) std::cerr << '\n';
}

}  // namespace chimere::app
