#include "terminal/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/byte_amount.h"

namespace chimere::terminal {
namespace {

std::string amount(int64_t value, bool bytes) {
  return bytes ? human_bytes(static_cast<double>(value)) : std::to_string(value);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 120) return std::to_string(whole) + " s";
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 60) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

namespace {

/// What stands before and behind the bar.
struct ProgressParts {
  std::string head;
  std::string tail;
  double share;
};

ProgressParts parts_of(const Progress& p) {
  std::string head(p.what);
  if (!head.empty()) head += ' ';
  std::string tail = amount(p.done, p.bytes);
  const double share =
      p.total > 0 ? std::clamp(static_cast<double>(p.done) / static_cast<double>(p.total), 0.0, 1.0)
                  : 0;
  if (p.total > 0) {
    char percent[8];
    (void)std::snprintf(percent, sizeof(percent), "%3d%% ", static_cast<int>(share * 100));
    head += percent;
    tail += " of " + amount(p.total, p.bytes);
  }
  if (p.per_second > 0) {
    tail +=
        ", " +
        (p.bytes ? human_bytes(p.per_second) : std::to_string(static_cast<int64_t>(p.per_second))) +
        "/s";
    if (p.total > p.done) {
      tail += ", " + duration_text(static_cast<double>(p.total - p.done) / p.per_second) + " left";
    }
  }
  return {std::move(head), std::move(tail), share};
}

}  // namespace

std::string progress_text(const Progress& progress) {
  const ProgressParts parts = parts_of(progress);
  return parts.head + parts.tail;
}

std::string progress_bar(const Progress& progress, int columns) {
  auto [head, tail, share] = parts_of(progress);
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 3;
  if (progress.total > 0 && room >= 10) {
    const int width = std::min(room, 30);
    const int full = static_cast<int>(share * width);
    head += '[' + std::string(static_cast<size_t>(full), '#') +
            std::string(static_cast<size_t>(width - full), '.') + "] ";
  }
  return (head + tail).substr(0, static_cast<size_t>(std::max(columns, 0)));
}

}  // namespace chimere::terminal
