#include "base/nearest_word.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace chimere {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string nearest_word(std::string_view word, std::span<const std::string> words) {
  const size_t letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  size_t nearest = letters < 6 ? 2 : 3;
  if (letters < 3) nearest = 0;
  std::string out;
  for (const std::string& candidate : words) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= nearest) continue;
    nearest = distance;
    out = candidate;
  }
  return out;
}

}  // namespace chimere
