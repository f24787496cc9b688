#include "text/jinja/marked_text.h"

#include <algorithm>

namespace chimere::text::jinja {

void MarkedText::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), trusted});
  }
}

size_t MarkedText::run_of(size_t at) const {
  const auto it = std::ranges::upper_bound(runs_, at, {}, &Run::end);
  return static_cast<size_t>(it - runs_.begin());
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  const std::string_view source = other.bytes_;
  for (size_t run = other.run_of(begin); begin < end; ++run) {
    const size_t stop = std::min(end, other.runs_[run].end);
    append(source.substr(begin, stop - begin), other.runs_[run].trusted);
    begin = stop;
  }
}

MarkedText MarkedText::substr(size_t begin, size_t end) const {
  MarkedText out;
  out.append(*this, begin, end);
  return out;
}

bool MarkedText::trusted_at(size_t at) const { return runs_[run_of(at)].trusted; }

std::vector<TextRange> MarkedText::trusted_ranges() const {
  std::vector<TextRange> ranges;
  size_t begin = 0;
  for (const Run& run : runs_) {
    if (run.trusted) ranges.push_back({begin, run.end});
    begin = run.end;
  }
  return ranges;
}

}  // namespace chimere::text::jinja
