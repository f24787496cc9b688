#include "quantize/allocate.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

namespace chimere::quantize {
namespace {

// Choices of an item that no other one beats in both bytes and loss, by rising bytes.
struct Frontier {
  std::vector<size_t> index;  // into the item's choices
};

class Knapsack {
 public:
  Knapsack(const std::vector<std::vector<Choice>>& items, uint64_t budget)
      : items_(items), budget_(budget) {
    for (const std::vector<Choice>& choices : items) {
      std::vector<size_t> order(choices.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::sort(order, [&](size_t a, size_t b) {
        return choices[a].bytes != choices[b].bytes ? choices[a].bytes < choices[b].bytes
               : choices[a].loss != choices[b].loss ? choices[a].loss < choices[b].loss
                                                    : a < b;
      });
      Frontier& frontier = frontiers_.emplace_back();
      double least = std::numeric_limits<double>::max();
      for (const size_t i : order) {
        if (choices[i].loss >= least) continue;
        least = choices[i].loss;
        frontier.index.push_back(i);
      }
    }
  }

  uint64_t smallest() const {
    uint64_t bytes = 0;
    for (size_t i = 0; i < items_.size(); ++i) bytes += choice(i, 0).bytes;
    return bytes;
  }

  // The allocation that minimises loss + price * bytes; of equal ones that with fewer bytes.
  Allocation at_price(double price) const {
    Allocation out;
    for (size_t i = 0; i < items_.size(); ++i) {
      size_t best = 0;
      for (size_t c = 1; c < frontiers_[i].index.size(); ++c) {
        if (cost(i, c, price) < cost(i, best, price)) best = c;
      }
      take(i, best, out);
    }
    return out;
  }

  // Lower bound of the optimum's loss.
  double bound(double price) const {
    double sum = -price * static_cast<double>(budget_);
    for (size_t i = 0; i < items_.size(); ++i) sum += least_cost(i, price);
    return sum;
  }

  // Spends the bytes that are left where they lower the loss most for each byte.
  void fill(Allocation& a) const {
    for (;;) {
      size_t best_item = 0;
      size_t best_choice = 0;
      double best_rate = 0;
      for (size_t i = 0; i < items_.size(); ++i) {
        const Choice& now = items_[i][a.chosen[i]];
        for (const size_t c : frontiers_[i].index) {
          const Choice& other = items_[i][c];
          if (other.bytes <= now.bytes || other.loss >= now.loss ||
              other.bytes - now.bytes > budget_ - a.bytes) {
            continue;
          }
          const double rate =
              (now.loss - other.loss) / static_cast<double>(other.bytes - now.bytes);
          if (rate <= best_rate) continue;
          best_rate = rate;
          best_item = i;
          best_choice = c;
        }
      }
      if (best_rate <= 0) return;
      a.bytes +=
          items_[best_item][best_choice].bytes - items_[best_item][a.chosen[best_item]].bytes;
      a.chosen[best_item] = best_choice;
      a.loss = 0;
      for (size_t i = 0; i < items_.size(); ++i) a.loss += items_[i][a.chosen[i]].loss;
    }
  }

  // Looks for an allocation with less loss than `best`. Returns false if it ran out of states.
  bool improve(double price, size_t max_states, Allocation& best) const;

 private:
  const Choice& choice(size_t i, size_t c) const { return items_[i][frontiers_[i].index[c]]; }
  double cost(size_t i, size_t c, double price) const {
    return choice(i, c).loss + price * static_cast<double>(choice(i, c).bytes);
  }
  double least_cost(size_t i, double price) const {
    double least = cost(i, 0, price);
    for (size_t c = 1; c < frontiers_[i].index.size(); ++c) {
      least = std::min(least, cost(i, c, price));
    }
    return least;
  }
  void take(size_t i, size_t c, Allocation& out) const {
    out.chosen.push_back(frontiers_[i].index[c]);
    out.bytes += choice(i, c).bytes;
    out.loss += choice(i, c).loss;
  }

  const std::vector<std::vector<Choice>>& items_;
  uint64_t budget_;
  std::vector<Frontier> frontiers_;
};

struct State {
  uint64_t bytes;
  double loss;
  uint32_t parent;
  uint32_t choice;  // into the frontier
};

bool Knapsack::improve(double price, size_t max_states, Allocation& best) const {
  const double lower = bound(price);
  // tail[i]: least cost of the items from i on.
  std::vector<double> tail(items_.size() + 1);
  std::vector<uint64_t> tail_bytes(items_.size() + 1);
  for (size_t i = items_.size(); i-- > 0;) {
    tail[i] = tail[i + 1] + least_cost(i, price);
    tail_bytes[i] = tail_bytes[i + 1] + choice(i, 0).bytes;
  }
  const double limit = best.loss * (1 - 1e-12);
  const double offset = price * static_cast<double>(budget_);
  std::vector<std::vector<State>> stages(items_.size() + 1);
  stages[0].push_back({0, 0, 0, 0});
  for (size_t i = 0; i < items_.size(); ++i) {
    std::vector<State> next;
    for (size_t c = 0; c < frontiers_[i].index.size(); ++c) {
      if (lower + cost(i, c, price) - least_cost(i, price) > limit) continue;
      const Choice& one = choice(i, c);
      for (size_t s = 0; s < stages[i].size(); ++s) {
        const State& from = stages[i][s];
        const State to = {from.bytes + one.bytes, from.loss + one.loss, static_cast<uint32_t>(s),
                          static_cast<uint32_t>(c)};
        if (to.bytes + tail_bytes[i + 1] > budget_) continue;
        const double reachable =
            to.loss + price * static_cast<double>(to.bytes) + tail[i + 1] - offset;
        if (reachable > limit) continue;
        next.push_back(to);
      }
      if (next.size() > 8 * max_states) return false;
    }
    std::ranges::sort(next, [](const State& a, const State& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.loss < b.loss;
    });
    double least = std::numeric_limits<double>::max();
    for (const State& state : next) {
      if (state.loss >= least) continue;
      least = state.loss;
      stages[i + 1].push_back(state);
    }
    if (stages[i + 1].empty()) return true;  // `best` is optimal
    if (stages[i + 1].size() > max_states) return false;
  }
  // The last stage's state of least loss is the one of most bytes.
  Allocation found;
  found.chosen.resize(items_.size());
  size_t at = stages.back().size() - 1;
  for (size_t i = items_.size(); i-- > 0;) {
    const State& state = stages[i + 1][at];
    found.chosen[i] = frontiers_[i].index[state.choice];
    found.bytes += choice(i, state.choice).bytes;
    at = state.parent;
  }
  for (size_t i = 0; i < items_.size(); ++i) found.loss += items_[i][found.chosen[i]].loss;
  if (found.loss < best.loss) best = std::move(found);
  return true;
}

}  // namespace

Result<Allocation> allocate(const std::vector<std::vector<Choice>>& items, uint64_t budget,
                            size_t max_states) {
  const Knapsack problem(items, budget);
  if (problem.smallest() > budget) {
    return invalid_argument("The smallest formats that are allowed take " +
                            std::to_string(problem.smallest()) + " bytes, and the budget is " +
                            std::to_string(budget) +
                            "; allow more bytes, or lower the floors and keep fewer tensors.");
  }
  Allocation best = problem.at_price(0);
  if (best.bytes <= budget) return best;
  // Bisection for the smallest price at which the allocation fits.
  constexpr int kRounds = 200;
  double low = 0;
  double high = 1e-12;
  while (problem.at_price(high).bytes > budget && high < 1e30) high *= 4;
  for (int i = 0; i < kRounds; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (problem.at_price(middle).bytes > budget ? low : high) = middle;
  }
  best = problem.at_price(high);
  if (best.bytes > budget) {  // no loss was large enough to tell: the smallest choices
    best = problem.at_price(std::numeric_limits<double>::max() / 1e30);
  }
  problem.fill(best);
  const double lower = std::max(problem.bound(low), problem.bound(high));
  if (!problem.improve(high, max_states, best)) best.gap = std::max(0.0, best.loss - lower);
  return best;
}

}  // namespace chimere::quantize
