// Prompt lookup: finds an earlier occurrence of the end of a text.
#ifndef CHIMERE_ENGINE_SPECULATION_SUFFIX_AUTOMATON_H_
#define CHIMERE_ENGINE_SPECULATION_SUFFIX_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace chimere::engine {

/// The suffix automaton of a growing token sequence (Blumer et al. 1985): after every token it
/// holds the longest suffix that also ends at an earlier position. A token costs amortised constant
/// time and about 150 bytes.
class SuffixAutomaton {
 public:
  SuffixAutomaton();

  void push(int32_t token);

  /// Length of the longest suffix that occurred before; 0: none.
  int32_t match_length() const { return match_length_; }
  /// Position of the token that followed that occurrence, counted from 0; a late one if there are
  /// several. Requires match_length() > 0.
  int64_t match_next() const { return match_end_ + 1; }

  int64_t size() const { return size_; }

 private:
  /// A set of substrings that end at the same positions.
  struct State {
    int32_t length = 0;       ///< of the longest of them
    int32_t link = -1;        ///< the state of its longest suffix outside this one
    int64_t end = -1;         ///< a late position where they end
    int32_t first_edge = -1;  ///< head of the list of its edges
  };
  struct Edge {
    int32_t token = 0;
    int32_t next = -1;
  };

  static uint64_t key(int32_t state, int32_t token) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32U) |
           static_cast<uint32_t>(token);
  }
  State& at(int32_t state) { return states_[static_cast<size_t>(state)]; }
  /// -1: no such edge.
  int32_t follow(int32_t state, int32_t token) const;
  void connect(int32_t from, int32_t token, int32_t to);
  int32_t add_state(int32_t length, int64_t end);
  int32_t split(int32_t from, int32_t token, int32_t to);

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::unordered_map<uint64_t, int32_t> targets_;  ///< by key(state, token)
  int32_t last_ = 0;                               ///< state of the whole text
  int64_t size_ = 0;
  int32_t match_length_ = 0;
  int64_t match_end_ = -1;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SUFFIX_AUTOMATON_H_
