// A progress bar as one line of text. Pure.
#ifndef CHIMERE_TERMINAL_PROGRESS_BAR_H_
#define CHIMERE_TERMINAL_PROGRESS_BAR_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace chimere::terminal {

struct Progress {
  std::string_view what = {};  ///< "Loading", "Indexing"; may be empty
  int64_t done = 0;
  int64_t total = 0;      ///< 0: unknown
  bool bytes = true;      ///< the amounts are bytes; false: a count of things
  double per_second = 0;  ///< of `done`; 0: not known yet
};

/// "Pulling  42% [#####.......] 1.20 GB of 2.86 GB, 88.20 MB/s, 19 s left", at most `columns` wide.
/// The bar is left out where it has no room.
std::string progress_bar(const Progress& progress, int columns);

/// The same without a bar, of any width.
std::string progress_text(const Progress& progress);

/// "19 s", "4 min", "1 h 20 min".
std::string duration_text(double seconds);

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_PROGRESS_BAR_H_
