// A lock-free list for values that many threads produce and one consumes.
#ifndef CHIMERE_BASE_MPSC_LIST_H_
#define CHIMERE_BASE_MPSC_LIST_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

namespace chimere {

/// A stack (Treiber 1986) that is taken as a whole, so that no node is reused while another thread
/// looks at it. All operations are sequentially consistent.
template <typename T>
class MpscList {
 public:
  MpscList() = default;
  ~MpscList() { free(head_.load()); }
  MpscList(const MpscList&) = delete;
  MpscList& operator=(const MpscList&) = delete;

  /// Any thread. True if the list was empty.
  bool push(T value) {
    Node* before = head_.load();
    Node* const node = new Node{std::move(value), before};
    while (!head_.compare_exchange_weak(before, node)) node->next = before;
    return before == nullptr;
  }
  bool empty() const { return head_.load() == nullptr; }
  /// Appends all values to `out` in the order of their push(), and removes them. One thread at a
  /// time.
  void take(std::vector<T>& out) {
    Node* const taken = head_.exchange(nullptr);
    const auto old_size = static_cast<std::ptrdiff_t>(out.size());
    for (Node* node = taken; node != nullptr; node = node->next) {
      out.push_back(std::move(node->value));
    }
    std::reverse(out.begin() + old_size, out.end());
    free(taken);
  }

 private:
  struct Node {
    T value;
    Node* next;
  };
  static void free(Node* node) {
    while (node != nullptr) delete std::exchange(node, node->next);
  }

  std::atomic<Node*> head_ = nullptr;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_MPSC_LIST_H_
